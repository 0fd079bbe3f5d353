//! The services that can be called now.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use super::Service;

/// The services that can be called now. Their targets are probed for as long as they are in the list.
#[derive(Default)]
pub struct ServiceList(ArcSwap<Listed>);

#[derive(Default)]
struct Listed {
    services: Vec<Arc<Service>>,
    /// Ends the probes.
    stop: Option<watch::Sender<bool>>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.stop.take().inspect(|stop| {
            // Where nothing is probed, nobody hears it.
            let _ = stop.send(true);
        });
    }
}

impl ServiceList {
    /// From now on these are the services, and their targets are probed.
    pub fn set(&self, services: Vec<Arc<Service>>) {
        let (stop, stopped) = watch::channel(false);
        for service in &services {
            tokio::spawn(service.upstream.clone().watch(stopped.clone()));
        }
        self.0.store(Arc::new(Listed { services, stop: Some(stop) }));
    }

    /// Each service.
    pub fn all(&self) -> Vec<Arc<Service>> {
        self.0.load().services.clone()
    }
}
