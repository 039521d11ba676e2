//! All operations of the API: a row each.

use http::{Method, StatusCode};

#[cfg(test)]
use super::document;
use super::operation::{Act, Operation, Output, Parameter, Reach, SchemaOf};
use super::{acts, content, jobs, live, log, objects, openapi, origins, tokens, top, views, warm};
use crate::answer::JSON;
use crate::call::Role;
use crate::control::Reloaded;
use crate::data_plane::{
    CertificateUse, ContentLaid, ContentListing, ContentShown, Explained, Listing, PurgeOrder, Purged,
    Question, Retained, RetentionOrder, Retentions, UpgradeOrder, Upgraded, VolumeUse, WarmOrder, WarmPiece,
    WarmTaken,
};
use crate::history::HistoryShown;
use crate::jobs::JobShown;
use crate::origins::{OriginChanged, OriginOrder, OriginsOf};
use crate::past::PastShown;
use crate::readings::{MetricsOrder, MetricsPushed, MetricsShown};
use crate::sites::Sites;
use crate::status::Status;
use crate::streams::Form;
use crate::tokens::{TokenMade, TokenOrder, TokenShown};
use crate::top::Top;

/// All operations.
pub(crate) static TABLE: &[Operation] = &[
    Operation {
        method: Method::GET,
        path: "/v1/openapi.json",
        role: None,
        reach: Reach::OwnSites,
        summary: "This document.",
        query: &[],
        input: None,
        output: done("The OpenAPI document.", ANY),
        act: Act::Shows(openapi::show),
    },
    Operation {
        method: Method::GET,
        path: "/v1/status",
        role: Some(Role::View),
        reach: Reach::Whole,
        summary: "What Weir does and holds.",
        query: &[],
        input: None,
        output: done("The status.", SchemaOf::of::<Status>()),
        act: Act::Shows(views::status),
    },
    Operation {
        method: Method::GET,
        path: "/v1/certificates",
        role: Some(Role::View),
        reach: Reach::Whole,
        summary: "The certificates for clients.",
        query: &[],
        input: None,
        output: done(
            "All certificates, those included that cannot be used.",
            SchemaOf::of::<Vec<CertificateUse>>(),
        ),
        act: Act::Shows(views::certificates),
    },
    Operation {
        method: Method::GET,
        path: "/v1/volumes",
        role: Some(Role::View),
        reach: Reach::Whole,
        summary: "The state of each volume.",
        query: &[],
        input: None,
        output: done("The volumes.", SchemaOf::of::<Vec<VolumeUse>>()),
        act: Act::Shows(views::volumes),
    },
    Operation {
        method: Method::GET,
        path: "/v1/origins",
        role: Some(Role::View),
        reach: Reach::Whole,
        summary: "The origins of each upstream: how each stands, and how it differs from the file.",
        query: &[],
        input: None,
        output: done("The upstreams with their origins.", SchemaOf::of::<Vec<OriginsOf>>()),
        act: Act::Shows(origins::list),
    },
    Operation {
        method: Method::POST,
        path: "/v1/origins",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Changes an origin at once, for all requests that begin from then on. It lasts until the \
                  process ends, through reloads and upgrades; with `keep` longer.",
        query: &[],
        input: Some(SchemaOf::of::<OriginOrder>()),
        output: done("It is changed.", SchemaOf::of::<OriginChanged>()),
        act: Act::Blocks(origins::change),
    },
    Operation {
        method: Method::GET,
        path: "/v1/origins/metrics",
        role: Some(Role::View),
        reach: Reach::Whole,
        summary: "The metrics of all origins: values, ages, and why one is missing.",
        query: &[],
        input: None,
        output: done("The sources and the origins.", SchemaOf::of::<MetricsShown>()),
        act: Act::Shows(origins::metrics),
    },
    Operation {
        method: Method::POST,
        path: "/v1/origins/metrics",
        role: Some(Role::Push),
        reach: Reach::Whole,
        summary: "Pushes metrics of an origin. They come before those of all sources, last until their \
                  lifetime or the process ends, and are not in the history.",
        query: &[],
        input: Some(SchemaOf::of::<MetricsOrder>()),
        output: done("The origin has them.", SchemaOf::of::<MetricsPushed>()),
        act: Act::Blocks(origins::push),
    },
    Operation {
        method: Method::PUT,
        path: "/v1/origins/metrics",
        role: Some(Role::Push),
        reach: Reach::Whole,
        summary: "The same as POST, which says what holds of both.",
        query: &[],
        input: Some(SchemaOf::of::<MetricsOrder>()),
        output: done("The origin has them.", SchemaOf::of::<MetricsPushed>()),
        act: Act::Blocks(origins::push),
    },
    Operation {
        method: Method::GET,
        path: "/v1/objects",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "What is cached: a page, the first of an order, or a sum. Conditions must all hold. As a \
                  stream: lines with `event` `progress` first, then the objects, then a line with `event` \
                  `end` and `next`, `sum` and `walked`, or `failed` and a `message`. A token of several \
                  sites names one of them.",
        query: &[
            text("site", "Only this site, by its name or one of its hosts."),
            text("prefix", "Only URLs that begin with this text."),
            text("tag", "Only objects with this tag."),
            text("match", "Only URLs that this glob takes as a whole, or behind `~` a regular expression."),
            text("status", "Only these statuses: `404`, `200-299,404`, `5xx`."),
            text("type", "Only these media types: `text/html,image/*`."),
            text("size", "Only so many bytes held: `1MiB..`, `..10KiB`, `1KiB..2KiB`."),
            text("age", "Only of that age: `1h..`, `..10m`."),
            text("freshness", "`fresh`, `stale`, or a time: what is fresh and expires within it: `10m`."),
            text("held", "`part` or `whole`."),
            text("place", "`memory`, or the name of a volume."),
            number("by-hand", "1: only content by hand; 0: only what is not."),
            text("sort", "What comes first: `url`, `size`, `age` or `expires`; it has one page."),
            number("sum", "1: only how many objects and bytes there are. Default: 0."),
            number("limit", "The most objects, 1 to 10000. Default: 100."),
            text("after", "Where the page before ended: its `next`."),
        ],
        input: None,
        output: Output {
            status: StatusCode::OK,
            meaning: "Objects.",
            forms: &[JSON, Form::LINES, Form::EVENTS],
            schema: SchemaOf::of::<Listing>(),
        },
        act: Act::Waits(objects::list),
    },
    Operation {
        method: Method::GET,
        path: "/v1/sites",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "The accounts of sites: what each holds and has used.",
        query: &[
            text("site", "Only this site, by its name or one of its hosts."),
            text("since", "Only use from this day, month or span on: `2026-11-22`, `2026-11`, `30d`."),
            number("days", "1: each day by itself. Default: 0."),
            number("live", "1: also what is held and neither purged nor stale. Default: 0."),
            text("format", "`json` or `csv`. Default: `json`."),
        ],
        input: None,
        output: Output {
            status: StatusCode::OK,
            meaning: "The accounts.",
            forms: &[JSON, views::CSV],
            schema: SchemaOf::of::<Sites>(),
        },
        act: Act::Blocks(views::sites),
    },
    Operation {
        method: Method::POST,
        path: "/v1/explain",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "What would happen to a request, and why. Nothing is sent to an origin.",
        query: &[],
        input: Some(SchemaOf::of::<Question>()),
        output: done("What would happen.", SchemaOf::of::<Explained>()),
        act: Act::Blocks(views::explain),
    },
    Operation {
        method: Method::POST,
        path: "/v1/purge",
        role: Some(Role::Purge),
        reach: Reach::OwnSites,
        summary: "Purges. The answer comes once the purge is durable. Where a scope makes no sense, none \
                  is carried out.",
        query: &[],
        input: Some(SchemaOf::of::<PurgeOrder>()),
        output: done("It is purged.", SchemaOf::of::<Purged>()),
        act: Act::Waits(acts::purge),
    },
    Operation {
        method: Method::POST,
        path: "/v1/purge/dry-run",
        role: Some(Role::Purge),
        reach: Reach::OwnSites,
        summary: "What a purge would take: objects and bytes, exactly; nothing is purged. Reads the head \
                  of everything held: a job, whose `result` is a `Counted`.",
        query: &[],
        input: Some(SchemaOf::of::<PurgeOrder>()),
        output: begun(SchemaOf::of::<JobShown>()),
        act: Act::Blocks(jobs::count_purged),
    },
    Operation {
        method: Method::POST,
        path: "/v1/ttl",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "Orders how long what is held, or asked for now, stays fresh, counted from now: longer or \
                  shorter than it was. The answer comes once that is durable. What must be asked about each \
                  time stays so. Where a scope makes no sense, none is carried out.",
        query: &[],
        input: Some(SchemaOf::of::<RetentionOrder>()),
        output: done("It is in force.", SchemaOf::of::<Retained>()),
        act: Act::Waits(acts::retain),
    },
    Operation {
        method: Method::GET,
        path: "/v1/ttl",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "The lifetimes that were ordered and have not ended, by the history.",
        query: &[],
        input: None,
        output: done("The newest first.", SchemaOf::of::<Retentions>()),
        act: Act::Blocks(views::retentions),
    },
    Operation {
        method: Method::POST,
        path: "/v1/reload",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Loads the configuration file again and puts it in force.",
        query: &[],
        input: None,
        output: done("It is in force.", SchemaOf::of::<Reloaded>()),
        act: Act::Blocks(acts::reload),
    },
    Operation {
        method: Method::POST,
        path: "/v1/upgrade",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Replaces the running program by a new one. Only the control socket may name the program.",
        query: &[],
        input: Some(SchemaOf::of::<UpgradeOrder>()),
        output: done("A new process has taken over.", SchemaOf::of::<Upgraded>()),
        act: Act::Blocks(acts::upgrade),
    },
    Operation {
        method: Method::POST,
        path: "/v1/verify",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Checks every byte on the volumes, and drops what is wrong: a job, whose `result` is a \
                  `Verified`.",
        query: &[],
        input: None,
        output: begun(SchemaOf::of::<JobShown>()),
        act: Act::Blocks(jobs::verify),
    },
    Operation {
        method: Method::POST,
        path: "/v1/warm",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "Asks for URLs without a client, so that they are held: a job, whose `result` is a \
                  `Warmed`. It goes on after a restart. Clients go first. Only the control socket may name a \
                  folder.",
        query: &[],
        input: Some(SchemaOf::of::<WarmOrder>()),
        output: begun(SchemaOf::of::<JobShown>()),
        act: Act::Blocks(warm::begin),
    },
    Operation {
        method: Method::POST,
        path: "/v1/warm/{id}",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "Sends more URLs to a warming that was begun with `more`.",
        query: &[],
        input: Some(SchemaOf::of::<WarmPiece>()),
        output: done("They are taken.", SchemaOf::of::<WarmTaken>()),
        act: Act::Blocks(warm::add),
    },
    Operation {
        method: Method::GET,
        path: "/v1/jobs",
        role: None,
        reach: Reach::OwnSites,
        summary: "The jobs of this process, the newest last. A token sees those that it has begun, and with \
                  `view` or `admin` and no sites those of others too.",
        query: &[],
        input: None,
        output: done("The jobs.", SchemaOf::of::<Vec<JobShown>>()),
        act: Act::Shows(jobs::list),
    },
    Operation {
        method: Method::GET,
        path: "/v1/jobs/{id}",
        role: None,
        reach: Reach::OwnSites,
        summary: "A job as it is now. As a stream: its progress until it has ended.",
        query: &[],
        input: None,
        output: Output {
            status: StatusCode::OK,
            meaning: "The job.",
            forms: &[JSON, Form::LINES, Form::EVENTS],
            schema: SchemaOf::of::<JobShown>(),
        },
        act: Act::Waits(jobs::show),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/jobs/{id}",
        role: None,
        reach: Reach::OwnSites,
        summary: "Asks a job to end. One that another has begun needs `admin`.",
        query: &[],
        input: None,
        output: done("The job as it was. It ends soon.", SchemaOf::of::<JobShown>()),
        act: Act::Blocks(jobs::cancel),
    },
    Operation {
        method: Method::GET,
        path: "/v1/events",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "Events as they happen, whether or not `[events]` is configured. Those that the client is \
                  too slow for are dropped, and counted in an event `dropped`.",
        query: &[
            text("site", "Only of this site, by its name or one of its hosts."),
            text("kind", "Only of this kind: `stored`. Several are separated by commas."),
        ],
        input: None,
        output: going_on("An object an event, as in the file of `[events]`."),
        act: Act::Waits(live::events),
    },
    Operation {
        method: Method::GET,
        path: "/v1/log",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "Lines of a log as they are made, whether or not it is configured. Those that the client is \
                  too slow for, and those beyond 2,000 a second, are dropped, and counted in an object with \
                  `event` `dropped`.",
        query: &[
            text("q", "Only lines that fit this condition, as `status >= 500 and first_byte > 200ms`."),
            text("site", "Only of this site, by its name or one of its hosts."),
            text(
                "kind",
                "`access` (requests of clients) or `origin` (requests to origins). Default: `access`.",
            ),
            number("full", "1: also the key, and the steps with all that was decided. Default: 0."),
        ],
        input: None,
        output: going_on("An object a request, as in the log."),
        act: Act::Waits(log::log),
    },
    Operation {
        method: Method::GET,
        path: "/v1/log/past",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "The last requests that failed, were cut, whose client left, or that were slow: 250 of \
                  each, also when nobody read the log. They end with the process.",
        query: &[
            text("q", "Only requests that fit this condition, as `status >= 500 and first_byte > 200ms`."),
            text("site", "Only of this site, by its name or one of its hosts."),
            text("kind", "`access`."),
            number("full", "1: also the key, and the steps that were noted. Default: 0."),
        ],
        input: None,
        output: done("The requests.", SchemaOf::of::<PastShown>()),
        act: Act::Blocks(log::past),
    },
    Operation {
        method: Method::GET,
        path: "/v1/top",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "What is asked for most, of the last minute or hour: estimates from samples, each with its \
                  error; and rates, volumes and jobs. As a stream: each second. A token of some sites sees \
                  the lists of these alone, without the rates and volumes, which are of the whole Weir.",
        query: &[
            text("by", "What is listed: `url`, `client`, `site` or `origin`. Default: `url`."),
            text("order", "`asked`, `missed`, `bytes` or `not-stored`. Default: `asked`."),
            text("window", "`minute` or `hour`. Default: `minute`."),
            number("limit", "The most rows, 1 to 100. Default: 20."),
            text("site", "Only of this site, by its name or one of its hosts; then without the rates."),
        ],
        input: None,
        output: Output {
            status: StatusCode::OK,
            meaning: "The list, and what goes on.",
            forms: &[JSON, Form::LINES, Form::EVENTS],
            schema: SchemaOf::of::<Top>(),
        },
        act: Act::Waits(top::show),
    },
    Operation {
        method: Method::GET,
        path: "/v1/history",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "What operators and clients have changed, or tried to.",
        query: &[
            text("site", "Only entries of this site, by its name or one of its hosts."),
            text("actor", "Only those of this actor: `token:cms`, `user:root`, `client:192.0.2.1`."),
            text(
                "act",
                "Only this act: `purge`, `purge-dry-run`, `ttl`, `reload`, `upgrade`, `verify`, `token-add`, \
                 `token-remove`, `origin-change`, `origin-metrics` (refused ones), `content-put`, \
                 `content-reset`, `job-cancel`, `job-ended` or `warm`.",
            ),
            text("result", "Only this result: `done`, `refused` or `failed`."),
            text(
                "since",
                "Only from this time on: RFC 3339 or its beginning in UTC, `2026-11-23T10`, or so long \
                 ago, `36h`, `30d`, `4w`.",
            ),
            number("limit", "The most entries, the newest, 1 to 10000. Default: 100."),
        ],
        input: None,
        output: done("The entries.", SchemaOf::of::<HistoryShown>()),
        act: Act::Blocks(views::history),
    },
    Operation {
        method: Method::GET,
        path: "/v1/tokens",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "The tokens, without their secrets.",
        query: &[],
        input: None,
        output: done("All tokens, those that have expired included.", SchemaOf::of::<Vec<TokenShown>>()),
        act: Act::Blocks(tokens::list),
    },
    Operation {
        method: Method::POST,
        path: "/v1/tokens",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Makes a token. Its secret is in this answer alone.",
        query: &[],
        input: Some(SchemaOf::of::<TokenOrder>()),
        output: done("It is good from now on.", SchemaOf::of::<TokenMade>()),
        act: Act::Blocks(tokens::add),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/tokens/{name}",
        role: Some(Role::Admin),
        reach: Reach::Whole,
        summary: "Removes a token.",
        query: &[],
        input: None,
        output: done("It is not good any more.", SchemaOf::of::<TokenShown>()),
        act: Act::Blocks(tokens::remove),
    },
    Operation {
        method: Method::GET,
        path: "/v1/content",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "A page of the content by hand, by URL.",
        query: &[
            text("site", "Only that of this site, by its name or one of its hosts."),
            text("prefix", "Only URLs that begin with this text."),
            number("limit", "The most pieces, 1 to 10000. Default: 100."),
            text("after", "Where the page before ended: its `next`."),
        ],
        input: None,
        output: done("A page.", SchemaOf::of::<ContentListing>()),
        act: Act::Blocks(content::list),
    },
    Operation {
        method: Method::PUT,
        path: "/v1/content",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "Lays the content of the request over a URL, or in place of what is laid there. It is \
                  durable when it is answered: 201, or 200 where it replaces other content by hand.",
        query: &[
            text("url", "The URL, with its scheme or without: both get it."),
            text("type", "Its media type. Default: the Content-Type, else by the ending of the URL's path."),
            text("ttl", "After which time it ends by itself: `90s`, `1h`. Default: it stays."),
        ],
        input: None,
        output: done("It is laid. 201 where nothing was by hand.", SchemaOf::of::<ContentLaid>()),
        act: Act::Takes(content::put),
    },
    Operation {
        method: Method::DELETE,
        path: "/v1/content",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "Resets a URL: what is laid over it by hand is gone, and the cache and the origin answer.",
        query: &[text("url", "The URL, with its scheme or without.")],
        input: None,
        output: done("What was laid.", SchemaOf::of::<ContentShown>()),
        act: Act::Blocks(content::reset),
    },
    Operation {
        method: Method::POST,
        path: "/cache/add/{uri}",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "As PUT of `/v1/content`, at the address that the Monkey cache has for it.",
        query: &[
            text("site", "The host, where there are several sites, or several hosts of one."),
            text("type", "Its media type. Default: by the ending of the path."),
            text("ttl", "After which time it ends by itself."),
        ],
        input: None,
        output: said("It is laid."),
        act: Act::Takes(content::add),
    },
    Operation {
        method: Method::POST,
        path: "/cache/reset/{uri}",
        role: Some(Role::Admin),
        reach: Reach::OwnSites,
        summary: "As DELETE of `/v1/content`, at the address that the Monkey cache has for it; by POST, \
                  since GET changes nothing.",
        query: &[text("site", "The host, where there are several sites, or several hosts of one.")],
        input: None,
        output: said("Nothing is laid there any more."),
        act: Act::Blocks(content::reset_uri),
    },
    Operation {
        method: Method::GET,
        path: "/cache/stats",
        role: Some(Role::View),
        reach: Reach::OwnSites,
        summary: "A page of the content by hand, as the Monkey cache shows it.",
        query: &[
            text("site", "Only that of this site, by its name or one of its hosts."),
            text("prefix", "Only URLs that begin with this text."),
            number("limit", "The most pieces, 1 to 10000. Default: 100."),
            text("after", "Where the page before ended: its `next`."),
        ],
        input: None,
        output: done("A page.", SchemaOf::of::<content::Stats>()),
        act: Act::Blocks(content::stats),
    },
];

/// A line of text.
const fn said(meaning: &'static str) -> Output {
    Output { status: StatusCode::OK, meaning, forms: &["text/plain; charset=utf-8"], schema: LINE_OF_TEXT }
}

const LINE_OF_TEXT: SchemaOf = SchemaOf {
    #[cfg(test)]
    print: document::line_of_text,
};

const ANY: SchemaOf = SchemaOf {
    #[cfg(test)]
    print: document::any,
};

/// A line of a stream: its fields are those of the file of events or of the log.
const LINE: SchemaOf = SchemaOf {
    #[cfg(test)]
    print: document::line,
};

const fn text(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, kind: "string", meaning }
}

const fn number(name: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, kind: "integer", meaning }
}

const fn done(meaning: &'static str, schema: SchemaOf) -> Output {
    Output { status: StatusCode::OK, meaning, forms: &[JSON], schema }
}

/// What takes long.
const fn begun(schema: SchemaOf) -> Output {
    let meaning = "The job, whose progress is at `Location`.";
    Output { status: StatusCode::ACCEPTED, meaning, forms: &[JSON], schema }
}

const fn going_on(meaning: &'static str) -> Output {
    Output { status: StatusCode::OK, meaning, forms: &[Form::LINES, Form::EVENTS], schema: LINE }
}
