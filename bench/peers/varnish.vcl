vcl 4.1;
# Varnish for bench/ranges: as it comes, which fetches whole objects and streams them.
backend default { .host = "127.0.0.1"; .port = "@origin@"; }
