//! `examples/registry.toml` before an origin that answers as Distribution 2.8 does: pulls by tag and by
//! digest, pushes, tokens, and layers that lie elsewhere.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use weir_testkit::{Exchange, Origin, Resource, Response, Weir, free_port, pattern, until};

use super::site::{ask, outdate, said, site};
use crate::answer::lint::skipped;
use crate::run::examples;
use crate::server::setup;

const HOST: &str = "registry.example.com";
const LAYER_BYTES: usize = 5_000_000;
const LIST: &str = "application/vnd.oci.image.index.v1+json";
const SINGLE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// What Docker and containerd accept, and what an old client does.
const NEW: (&str, &str) = (
    "Accept",
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json, */*",
);
const OLD: (&str, &str) = ("Accept", SINGLE);

/// A registry's tags, which pushes move.
#[derive(Clone, Default)]
struct Tags(Arc<Mutex<HashMap<String, u64>>>);

impl Tags {
    fn version(&self, path: &str) -> u64 {
        self.0.lock().unwrap().get(path).copied().unwrap_or(1)
    }

    fn raise(&self, path: &str) {
        *self.0.lock().unwrap().entry(path.to_owned()).or_insert(1) += 1;
    }
}

fn digest(number: u64) -> String {
    format!("sha256:{number:064x}")
}

fn registry(tags: &Tags) -> Origin {
    let origin = Origin::start();
    let tags = tags.clone();
    origin.otherwise(move |exchange| answer(exchange, &tags));
    origin
}

fn answer(exchange: &mut Exchange<'_>, tags: &Tags) {
    let request = exchange.request;
    let (method, path) = (request.method.clone(), request.path().to_owned());
    let version = ("Docker-Distribution-Api-Version", "registry/2.0");
    let credentials = request.header("authorization");
    let host = request.header("host").unwrap_or_default();
    if path == "/token" {
        let text = format!("{{\"token\":\"t{}\"}}", credentials.unwrap_or_default());
        exchange.reply(200, &[("Content-Type", "application/json")], text);
    } else if path == "/v2/" {
        let text = format!("{{}}{}", credentials.unwrap_or_default());
        exchange.reply(200, &[version, ("Content-Type", "application/json")], text);
    } else if path.starts_with("/v2/private/") && credentials.is_none() {
        let realm = "Bearer realm=\"https://registry.example.com/token\",service=\"registry\"";
        exchange.reply(401, &[version, ("WWW-Authenticate", realm)], "{\"errors\":[]}");
    } else if path.contains("/blobs/uploads/") {
        upload(exchange, &method, &host);
    } else if path.contains("/manifests/") && method == "PUT" {
        exchange.body();
        tags.raise(&path);
        let digest = digest(tags.version(&path));
        exchange.reply(201, &[version, ("Docker-Content-Digest", &digest)], "");
    } else if path.contains("/manifests/") {
        manifest(exchange, &path, tags);
    } else if path.starts_with("/v2/elsewhere/") {
        let signed = "https://bucket.s3.example.com/layer?X-Amz-Expires=1200&X-Amz-Signature=1";
        exchange.reply(307, &[version, ("Location", signed)], "");
    } else if let Some((_, digest)) = path.split_once("/blobs/") {
        let body = if path.starts_with("/v2/private/") {
            credentials.unwrap_or_default().into_bytes()
        } else {
            pattern(9, LAYER_BYTES)
        };
        let layer = Resource::new(body).header("Cache-Control", "max-age=31536000");
        let layer = layer.header("Docker-Content-Digest", digest).etag(&format!("\"{digest}\"")).ranges();
        layer.header("Content-Type", "application/octet-stream").answer(exchange);
    } else {
        exchange.reply(200, &[version, ("Content-Type", "application/json")], format!("{method} {path}"));
    }
}

fn upload(exchange: &mut Exchange<'_>, method: &str, host: &str) {
    let bytes = exchange.body().len();
    let location = format!("http://{host}/v2/app/blobs/uploads/4b1c?_state=x");
    let range = format!("0-{}", bytes.saturating_sub(1));
    let fields = [("Location", location.as_str()), ("Range", &range), ("Docker-Upload-UUID", "4b1c")];
    let status = match method {
        "PUT" => 201,
        "GET" => 204,
        _ => 202,
    };
    exchange.reply(status, &fields, "");
}

/// The form of a tag's manifest is chosen by `Accept`, and no `Vary` says so.
fn manifest(exchange: &mut Exchange<'_>, path: &str, tags: &Tags) {
    let accept = exchange.request.header("accept").unwrap_or_default();
    let kind = if accept.contains(LIST) { LIST } else { SINGLE };
    let name = path.rsplit('/').next().unwrap_or_default();
    let of_version = tags.version(path) + if kind == LIST { 1000 } else { 0 };
    let digest = if name.starts_with("sha256:") { name.to_owned() } else { digest(of_version) };
    let own = exchange.request.header("authorization").unwrap_or_default();
    let body = format!("{{\"mediaType\":\"{kind}\",\"of\":\"{digest}\",\"own\":\"{own}\"}}");
    let manifest = Resource::new(body).header("Docker-Distribution-Api-Version", "registry/2.0");
    let manifest = manifest.header("Content-Type", kind).header("Docker-Content-Digest", &digest);
    manifest.etag(&format!("\"{digest}\"")).answer(exchange);
}

fn start(origin: &Origin) -> Weir {
    site("registry.toml", &[("http://127.0.0.1:5000", origin)])
}

fn pull(weir: &Weir, request: &str, fields: &[(&str, &str)]) -> Response {
    ask(weir, HOST, request, fields, b"")
}

#[test]
fn an_image_is_pulled_from_the_registry_once() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let (tag, layer) = ("/v2/library/app/manifests/latest", format!("/v2/library/app/blobs/{}", digest(7)));
    for is_hit in [false, true] {
        assert_eq!(pull(&weir, "GET /v2/", &[]).status(), 200);
        let head = pull(&weir, &format!("HEAD {tag}"), &[NEW]);
        assert_eq!((head.status(), head.is_hit()), (200, is_hit), "{:?}", head.head);
        let named = head.header("docker-content-digest").unwrap();
        let whole = pull(&weir, &format!("GET {tag}"), &[NEW]);
        let is_brought = whole.is_hit() || whole.cache_status().contains("collapsed");
        assert!(is_brought, "the HEAD has brought it: {:?}", whole.head);
        assert_eq!(whole.header("docker-content-digest").as_deref(), Some(named.as_str()));
        assert_eq!(whole.header("content-type").as_deref(), Some(LIST));
        assert_eq!(head.header("content-length"), Some(whole.body.len().to_string()));
        let by_digest = pull(&weir, &format!("GET /v2/library/app/manifests/{named}"), &[NEW]);
        assert_eq!((by_digest.status(), by_digest.is_hit()), (200, is_hit));
        let bytes = pull(&weir, &format!("GET {layer}"), &[]);
        assert_eq!((bytes.status(), bytes.is_hit()), (200, is_hit), "{:?}", bytes.head);
        assert!(bytes.body == pattern(9, LAYER_BYTES));
        assert_eq!(bytes.header("docker-content-digest").unwrap(), digest(7));
    }
    assert_eq!((origin.count(tag), origin.count(&layer), origin.count("/v2/")), (1, 1, 1));
    assert!(pull(&weir, &format!("HEAD {layer}"), &[]).is_hit(), "before a push");
    assert_eq!(said(&origin, tag, "host").as_deref(), Some(HOST));
    assert_eq!(said(&origin, tag, "accept").as_deref(), Some(NEW.1));
    let same = [("If-None-Match", "\"sha256:x\", \"sha256:0\""), NEW];
    assert_eq!(pull(&weir, &format!("GET {tag}"), &same).status(), 200);
}

#[test]
fn clients_that_know_other_manifests_get_their_own() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    for is_hit in [false, true] {
        for (accept, kind) in [(NEW, LIST), (OLD, SINGLE)] {
            let answer = pull(&weir, "GET /v2/app/manifests/1.0", &[accept]);
            assert_eq!(answer.header("content-type").as_deref(), Some(kind));
            assert_eq!(answer.is_hit(), is_hit);
        }
    }
}

#[test]
fn a_push_passes_and_moves_its_tag_at_once() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let tag = "/v2/app/manifests/latest";
    for accept in [NEW, OLD] {
        pull(&weir, &format!("GET {tag}"), &[accept]);
    }
    let begun = ask(&weir, HOST, "POST /v2/app/blobs/uploads/", &[("Content-Length", "0")], b"");
    assert_eq!(begun.status(), 202);
    let location = begun.header("location").unwrap();
    let path = location.strip_prefix("http://registry.example.com").unwrap_or(&location);
    let layer = pattern(4, 3_000_000);
    for (request, status, body) in [("PATCH", 202, &layer[..]), ("GET", 204, b""), ("PUT", 201, b"x")] {
        let answer = ask(&weir, HOST, &format!("{request} {path}"), &[], body);
        assert_eq!(answer.status(), status, "{request}");
        if request == "PATCH" {
            assert_eq!(answer.header("range").as_deref(), Some("0-2999999"));
        }
    }
    for _ in 0..2 {
        assert!(!pull(&weir, &format!("GET {path}"), &[]).is_hit());
        assert!(!pull(&weir, "GET /v2/app/tags/list", &[]).is_hit());
    }
    let put = ask(&weir, HOST, &format!("PUT {tag}"), &[("Content-Type", SINGLE)], b"{}");
    assert_eq!(put.status(), 201);
    for (accept, number) in [(NEW, 1002), (OLD, 2)] {
        let answer = pull(&weir, &format!("GET {tag}"), &[accept]);
        assert_eq!(answer.header("docker-content-digest"), Some(digest(number)), "{:?}", answer.head);
    }
}

#[test]
fn a_tag_that_has_moved_elsewhere_is_asked_for_by_its_digest() {
    let tags = Tags::default();
    let origin = registry(&tags);
    let weir = start(&origin);
    let tag = "/v2/app/manifests/latest";
    pull(&weir, &format!("GET {tag}"), &[OLD]);
    outdate(&weir);
    let same = pull(&weir, &format!("GET {tag}"), &[OLD]);
    assert_eq!((same.status(), same.fwd().as_deref()), (200, Some("stale")), "{:?}", same.head);
    assert!(same.cache_status().contains("fwd-status=304"), "{:?}", same.head);
    assert_eq!(said(&origin, tag, "if-none-match"), Some(format!("\"{}\"", digest(1))));
    tags.raise(tag);
    outdate(&weir);
    let moved = pull(&weir, &format!("GET {tag}"), &[OLD]);
    assert_eq!(moved.header("docker-content-digest"), Some(digest(2)));
}

#[test]
fn what_needs_a_token_is_stored_for_nobody_and_neither_is_a_token() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let targets =
        ["/v2/private/app/manifests/latest".to_owned(), format!("/v2/private/app/blobs/{}", digest(8))];
    for _ in 0..2 {
        for target in &targets {
            for token in ["Bearer anna", "Bearer bert"] {
                let answer = pull(&weir, &format!("GET {target}"), &[("Authorization", token), OLD]);
                assert!(answer.text().contains(token) && !answer.is_hit(), "{target}: {}", answer.text());
            }
            let refused = pull(&weir, &format!("GET {target}"), &[OLD]);
            assert_eq!((refused.status(), refused.is_hit()), (401, false), "{target}");
            assert!(refused.header("www-authenticate").is_some());
        }
        for user in ["Basic YW5uYTph", "Basic YmVydDpi"] {
            let answer = pull(&weir, "GET /token?service=registry", &[("Authorization", user)]);
            assert_eq!(answer.text(), format!("{{\"token\":\"t{user}\"}}"));
        }
        assert_eq!(pull(&weir, "GET /token?service=registry", &[]).text(), "{\"token\":\"t\"}");
        let first = [("Authorization", "Bearer anna")];
        assert!(pull(&weir, "GET /v2/", &first).text().starts_with("{}"));
        assert_eq!(pull(&weir, "GET /v2/", &[]).text(), "{}");
    }
    assert_eq!(origin.count("/token"), 6);
}

#[test]
fn a_layer_that_lies_elsewhere_is_a_redirect_that_is_asked_for_each_time() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let target = format!("/v2/elsewhere/app/blobs/{}", digest(1));
    for count in 1..3 {
        let answer = pull(&weir, &format!("GET {target}"), &[]);
        assert_eq!((answer.status(), answer.is_hit()), (307, false));
        assert!(answer.header("location").unwrap().starts_with("https://bucket.s3.example.com/layer?X-Amz"));
        assert_eq!(origin.count(&target), count, "a signature does not live for long");
    }
}

#[test]
fn a_cut_pull_goes_on_where_it_was() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let request = format!("GET /v2/app/blobs/{}", digest(3));
    let tag = format!("\"{}\"", digest(3));
    for (range, from, to) in [("bytes=4000000-", 4_000_000, LAYER_BYTES), ("bytes=100-199", 100, 200)] {
        for is_hit in [false, true] {
            let part = pull(&weir, &request, &[("Range", range), ("If-Range", &tag)]);
            assert_eq!((part.status(), part.is_hit()), (206, is_hit), "{range}: {:?}", part.head);
            assert!(part.body == pattern(9, LAYER_BYTES)[from..to]);
        }
    }
    assert!(pull(&weir, &request, &[]).body == pattern(9, LAYER_BYTES));
}

#[test]
fn while_the_registry_is_down_or_refuses_yesterdays_image_is_pulled() {
    let origin = registry(&Tags::default());
    let weir = start(&origin);
    let (tag, layer) = ("GET /v2/app/manifests/latest", format!("GET /v2/app/blobs/{}", digest(7)));
    // Each client asks for /v2/ first, and goes away where that fails.
    for request in ["GET /v2/", tag, &layer] {
        assert!(!pull(&weir, request, &[OLD]).is_hit());
    }
    outdate(&weir);
    origin.on("/v2/app/manifests/latest", |exchange| {
        exchange.reply(429, &[("Retry-After", "60")], "{\"errors\":[{\"code\":\"TOOMANYREQUESTS\"}]}");
    });
    let answer = pull(&weir, tag, &[OLD]);
    assert_eq!((answer.status(), answer.is_hit()), (200, true), "{:?}", answer.head);
    drop(origin);
    for request in ["GET /v2/", tag, &layer] {
        let answer = pull(&weir, request, &[OLD]);
        assert_eq!((answer.status(), answer.is_hit()), (200, true), "{:?}", answer.head);
    }
    assert_eq!(pull(&weir, "GET /v2/app/tags/list", &[]).status(), 502);
}

/// An image of one layer as a folder, made by Python itself.
const IMAGE_MAKER: &str = r#"
import gzip, hashlib, io, json, os, tarfile
os.makedirs('image/blobs/sha256')
def blob(kind, data):
    name = hashlib.sha256(data).hexdigest()
    open('image/blobs/sha256/' + name, 'wb').write(data)
    return {'mediaType': 'application/vnd.oci.image.' + kind, 'digest': 'sha256:' + name, 'size': len(data)}
raw = io.BytesIO()
with tarfile.open(fileobj=raw, mode='w') as tar:
    entry = tarfile.TarInfo('data')
    entry.size = 3000000
    tar.addfile(entry, io.BytesIO(os.urandom(entry.size)))
layer = blob('layer.v1.tar+gzip', gzip.compress(raw.getvalue(), 1))
sums = ['sha256:' + hashlib.sha256(raw.getvalue()).hexdigest()]
roots = {'type': 'layers', 'diff_ids': sums}
config = {'architecture': 'amd64', 'os': 'linux', 'config': {}, 'rootfs': roots}
config = blob('config.v1+json', json.dumps(config).encode())
kind = 'application/vnd.oci.image.manifest.v1+json'
manifest = {'schemaVersion': 2, 'mediaType': kind, 'config': config, 'layers': [layer]}
manifest = blob('manifest.v1+json', json.dumps(manifest).encode())
manifest['annotations'] = {'org.opencontainers.image.ref.name': 'latest'}
json.dump({'schemaVersion': 2, 'manifests': [manifest]}, open('image/index.json', 'w'))
json.dump({'imageLayoutVersion': '1.0.0'}, open('image/oci-layout', 'w'))
"#;

/// A program that is killed with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The real registry and a real client, if both are installed (`WEIR_DOCKER_REGISTRY` and `WEIR_SKOPEO` name
/// others).
#[test]
fn skopeo_pushes_an_image_and_pulls_it_also_while_distribution_is_down() {
    let programs = ["docker-registry", "skopeo", "python3"].map(examples::installed);
    let [Some(distribution), Some(skopeo), Some(python)] = programs else { return skipped() };
    let (setup, port) = (setup(), free_port());
    let folder = setup.folder().to_owned();
    let config = format!(
        "version: 0.1\nlog: {{ level: warn }}\nhttp: {{ addr: \"127.0.0.1:{port}\" }}\n\
         storage: {{ filesystem: {{ rootdirectory: \"{}/images\" }} }}\n",
        folder.display()
    );
    let config = setup.file("registry.yml", config);
    let mut command = Command::new(distribution);
    command.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
    let distribution = Running(command.spawn().unwrap());
    until("the registry listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let weir = examples::run_before(
        setup,
        "registry.toml",
        &[("http://127.0.0.1:5000", format!("http://127.0.0.1:{port}"))],
    );
    let run = |program: &Path, args: &[&str]| {
        let said = Command::new(program).args(args).current_dir(&folder).output().unwrap();
        assert!(said.status.success(), "{args:?}: {said:?}");
    };
    run(&python, &["-c", IMAGE_MAKER]);
    let image = format!("docker://localhost:{}/library/app:latest", weir.addr().port());
    let copy = ["--insecure-policy", "copy"];
    run(&skopeo, &[&copy[..], &["--dest-tls-verify=false", "oci:image:latest", &image]].concat());
    let pull = |to: &str| {
        let to = format!("dir:{to}");
        run(&skopeo, &[&copy[..], &["--src-tls-verify=false", &image, &to]].concat());
    };
    pull("one");
    pull("two");
    outdate(&weir);
    drop(distribution);
    pull("three");
    let files = |name: &str| {
        let read = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_owned(), std::fs::read(path).unwrap())
        };
        std::fs::read_dir(folder.join(name)).unwrap().map(read).collect::<HashMap<_, _>>()
    };
    assert!(files("one").len() >= 3 && files("one") == files("two") && files("one") == files("three"));
    let hits = || weir.metric("weir_requests_total{outcome=\"hit\"}");
    until("the second pull is counted as hits", || hits().is_some_and(|hits| hits >= 3.0));
}
