//! The data plane as the control plane asks it.

use std::sync::Arc;
use std::time::Duration;

use weir_config::value::HostPattern;
use weir_config::{Loaded, Mistakes};
use weir_control::{
    ContentListing, ContentOrder, ContentRefusal, ContentShown, ContentSites, ContentUpload, ContentWanted,
    Counted, DataPlane, Explained, Held, Inventory, ListOrder, Listing, MetricsOrder, MetricsPushed,
    MetricsShown, OriginChanged, OriginOrder, OriginRefusal, OriginsOf, Phase, Progress, PurgeDone,
    PurgeOrder, PurgeScope, Question, RetentionRefusal, Sites, SitesOrder, SwapError, Swapped, Taken,
    UpgradeOrder, Upgraded, Verified, WarmBy, WarmOrder, WarmPiece, WarmRefusal, Warmed,
};
use weir_edge::{PurgeOrder as EdgeOrder, PurgeTarget, Purging, Unretained};
use weir_observe::{Observatory, Snapshot};
use weir_store::{Force, Made, Unwritten};

use super::{Extent, Fixed, Server, compile, inventory};
use crate::explained::{self, explained};
use crate::{accounts, build, content, events, metrics, volumes};

impl DataPlane for Server {
    fn fits(&self, loaded: &Loaded) -> Result<(), Mistakes> {
        build::fits(loaded)
    }

    fn swap(&self, loaded: Loaded) -> Result<Swapped, SwapError> {
        let mut warnings = self.at_start.warnings(&Fixed::of(&loaded));
        warnings.extend(loaded.warnings());
        let logs = self.other_logs(&loaded.config.log)?;
        let certificates = self.certificates.prepare(&loaded).map_err(SwapError)?;
        let plan = compile(&loaded, &self.observatory, &self.picks).map_err(SwapError)?;
        self.edge.swap(plan).map_err(|error| SwapError(error.to_string()))?;
        warnings.extend(self.certificates.configure(&loaded, certificates));
        warnings.extend(self.ordering.configure(&loaded));
        metrics::configure(&self.collector, &loaded, &self.edge);
        warnings.extend(self.edge.origin_warnings());
        self.edge.store().set_admission(volumes::admission_of(&loaded));
        self.edge.store().set_quotas(accounts::quotas(&loaded));
        self.edge.limit_content(content::size_bytes(&loaded));
        self.drives.configure(&volumes::wanted(&loaded.config.cache.volume));
        self.warmings.configure(&loaded);
        *self.extent.lock() = Extent::of(&loaded);
        let events = events::settings(&loaded.config.events);
        let before = std::mem::replace(&mut *self.loaded.lock(), Arc::new(loaded));
        let events_before = events::settings(&before.config.events);
        if events != events_before
            && let Err(error) = self.observatory.events.set(events.as_ref())
        {
            warnings.push(format!("[events] stay as they were: {error}"));
        }
        if let Some((settings, open)) = logs {
            self.observatory.set_logs(open);
            *self.logs.lock() = settings;
        }
        Ok(Swapped { warnings })
    }

    fn snapshot(&self) -> Snapshot {
        self.edge.snapshot()
    }

    fn inventory(&self) -> Inventory {
        self.shown()
    }

    fn explain(&self, question: &Question) -> Result<Explained, String> {
        let Question { method, url, headers, client } = question.clone();
        let explanation = self.edge.explain(&weir_edge::Question { method, url, headers, client })?;
        let loaded = self.loaded.lock().clone();
        let site = explanation.site.clone();
        let tls = explained::tls(&question.url, site.as_deref(), &loaded, &self.certificates);
        Ok(Explained { tls, ..explained(explanation, &loaded) })
    }

    fn purge(&self, order: &PurgeOrder, done: PurgeDone) -> Result<Taken, String> {
        let acknowledge = move |written: Result<Made, Unwritten>| {
            done(written.map(|made| made.stamp.number()).map_err(|error| error.to_string()));
        };
        let Purging { held, wider } = self.edge.purge(&purges(order), Box::new(acknowledge))?;
        Ok(Taken { held, wider })
    }

    fn retain(
        &self,
        scopes: &[PurgeScope],
        lifetime: Duration,
        done: PurgeDone,
    ) -> Result<(), RetentionRefusal> {
        let acknowledge = move |written: Result<Made, Unwritten>| {
            done(written.map(|made| made.stamp.number()).map_err(|error| error.to_string()));
        };
        let targets = scopes.iter().cloned().map(target).collect();
        self.edge.retain(targets, lifetime, Box::new(acknowledge)).map_err(|error| match error {
            Unretained::Unfit(sentence) => RetentionRefusal::Unfit(sentence),
            Unretained::TooMany(why) => RetentionRefusal::NoRoom(why.to_string()),
        })
    }

    fn concerns(&self, scope: &PurgeScope, site: &str, key: &str, tags: &[String]) -> bool {
        self.edge.concerns(&target(scope.clone()), site, key, tags)
    }

    fn check_order(&self, order: &PurgeOrder) -> Result<(), String> {
        self.edge.check_purge(&purges(order))
    }

    fn count_purged(&self, order: &PurgeOrder, progress: &Progress) -> Result<Counted, String> {
        let store = self.edge.store();
        progress.expect(store.usage().objects + store.objects_on_volumes());
        let stock = self.edge.count_purged(&purges(order), &|| progress.step())?;
        Ok(Counted { objects: stock.objects, bytes: stock.bytes })
    }

    fn has_volumes(&self) -> bool {
        !self.drives.reports().is_empty()
    }

    fn verify(&self, progress: &Progress) -> Result<Verified, String> {
        progress.expect(self.edge.store().objects_on_volumes());
        let all = self.edge.store().verify(&|| progress.step());
        if all.is_empty() {
            return Err("no volume is open".to_owned());
        }
        let mut sum = Verified::default();
        for (name, verified) in all {
            let found = verified.map_err(|error| format!("the volume {name} cannot be read: {error}"))?;
            sum.objects += found.objects;
            sum.parts += found.partial;
            sum.body_bytes += found.body_bytes;
            sum.damaged += found.damaged;
            sum.moved += found.moved;
            sum.counts_corrected += found.stocks_wrong;
            sum.rows_added += found.rows_missing;
            sum.rows_removed += found.rows_superfluous;
        }
        Ok(sum)
    }

    fn warm_begin(&self, order: &WarmOrder, by: &WarmBy) -> Result<String, WarmRefusal> {
        self.warmings.begin(order, by)
    }

    fn warm_add(&self, id: &str, piece: &WarmPiece) -> Result<u64, WarmRefusal> {
        self.warmings.add(id, piece)
    }

    fn warm_run(&self, id: &str, progress: &Progress) -> Result<Warmed, String> {
        self.warmings.run(id, &self.edge, progress)
    }

    fn warm_cancel(&self, id: &str) {
        self.warmings.cancel(id);
    }

    fn warm_drop(&self, id: &str) {
        self.warmings.remove(id);
    }

    fn origins(&self) -> Vec<OriginsOf> {
        self.origins.list(&self.edge)
    }

    fn origin_metrics(&self) -> MetricsShown {
        metrics::shown(&self.collector, &self.edge)
    }

    fn push_metrics(&self, order: &MetricsOrder) -> Result<MetricsPushed, OriginRefusal> {
        metrics::push(&self.edge, order)
    }

    fn change_origin(&self, order: &OriginOrder) -> Result<OriginChanged, OriginRefusal> {
        self.origins.change(&self.edge, order)
    }

    fn list(&self, order: &ListOrder, progress: &Progress) -> Result<Listing, String> {
        inventory::list(&self.edge, order, progress)
    }

    fn upgrade(&self, order: &UpgradeOrder) -> Result<Upgraded, String> {
        let upgrader = self.upgrader.get().ok_or("this Weir has not started yet")?;
        upgrader(order).inspect_err(|why| tracing::error!("not upgraded: {why}"))
    }

    fn begin_content(&self, order: &ContentOrder) -> Result<Box<dyn ContentUpload>, ContentRefusal> {
        content::begin(&self.edge, order)
    }

    fn reset_content(
        &self,
        url: &str,
        sites: Option<&[String]>,
    ) -> Result<Option<ContentShown>, ContentRefusal> {
        content::reset(&self.edge, url, sites)
    }

    fn content(&self, wanted: &ContentWanted) -> Result<ContentListing, String> {
        content::list(&self.edge, wanted)
    }

    fn sites_of_content(&self, url: &str) -> Result<ContentSites, ContentRefusal> {
        content::sites(&self.edge, url)
    }

    fn only_site(&self) -> Option<String> {
        let plan = self.edge.plan();
        match plan.sites() {
            [only] => Some(only.name.to_string()),
            _ => None,
        }
    }

    fn content_within(&self, order: &PurgeOrder) -> u64 {
        self.edge.content_within(&purges(order))
    }

    fn sites(&self, order: &SitesOrder) -> Result<Sites, String> {
        let loaded = self.loaded.lock().clone();
        accounts::sites(order, &self.accounts, &loaded, &self.edge)
    }

    fn held(&self) -> Held {
        accounts::held(&self.edge)
    }

    fn admin_hosts(&self) -> Vec<HostPattern> {
        self.loaded.lock().config.admin.hosts.clone()
    }

    fn observatory(&self) -> &Observatory {
        &self.observatory
    }

    fn site_named(&self, name: &str) -> Option<String> {
        self.edge.site_named(name)
    }

    fn unknown_site(&self, name: &str) -> String {
        self.edge.unknown_site(name)
    }

    fn site_of_url(&self, url: &str) -> Option<String> {
        self.edge.site_of_url(url)
    }

    fn phase(&self) -> Phase {
        if self.edge.is_draining() { Phase::Draining } else { Phase::Serving }
    }
}

/// The purges of an order, as the edge takes them.
fn purges(order: &PurgeOrder) -> Vec<EdgeOrder> {
    let force = if order.soft { Force::Soft } else { Force::Hard };
    order.all().cloned().map(|scope| EdgeOrder { target: target(scope), force }).collect()
}

/// What a scope names, as the edge takes it.
fn target(scope: PurgeScope) -> PurgeTarget {
    match scope {
        PurgeScope::Url(url) => PurgeTarget::Url(url),
        PurgeScope::Prefix(prefix) => PurgeTarget::Prefix(prefix),
        PurgeScope::Tags(tags) => PurgeTarget::Tags { tags, site: None },
        PurgeScope::TagsOf { site, tags } => PurgeTarget::Tags { tags, site: Some(site) },
        PurgeScope::Site(site) => PurgeTarget::Site(site),
        PurgeScope::All => PurgeTarget::All,
    }
}
