//! Connections of an executor to others, kept for a while: what Ballista's own engine has and keeps to itself.
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::error::Result;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::utils::GrpcClientConfig;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use trunnion_features::async_trait::async_trait;
use trunnion_features::tokio;

type Place = (String, u16, GrpcClientConfig);

#[derive(Default)]
struct Idle(Mutex<HashMap<Place, Vec<(Instant, BallistaClient)>>>);

impl Idle {
    fn take(&self, place: &Place) -> Option<BallistaClient> {
        self.0.lock().get_mut(place)?.pop().map(|(_, client)| client)
    }

    fn put(&self, place: Place, client: BallistaClient) {
        self.0.lock().entry(place).or_default().push((Instant::now(), client));
    }

    fn drop_old(&self, time: Duration) {
        self.0.lock().retain(|_, clients| {
            clients.retain(|(since, _)| since.elapsed() < time);
            !clients.is_empty()
        });
    }
}

pub struct Connections {
    idle: Arc<Idle>,
    time: Duration,
}

impl fmt::Debug for Connections {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Connections")
    }
}

async fn watch(idle: Weak<Idle>, time: Duration) {
    loop {
        tokio::time::sleep(time.max(Duration::from_secs(1))).await;
        match idle.upgrade() {
            Some(idle) => idle.drop_old(time),
            None => return,
        }
    }
}

impl Connections {
    /// One that nothing uses for `time` is closed.
    pub fn new(time: Duration) -> Self {
        let idle = Arc::new(Idle::default());
        tokio::spawn(watch(Arc::downgrade(&idle), time));
        Self { idle, time }
    }
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> Result<PooledClient> {
        let place = (host.to_string(), port, config.clone());
        let client = match self.idle.take(&place) {
            Some(client) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let idle = Arc::clone(&self.idle);
        Ok(PooledClient::new(client, Box::new(move |client| idle.put(place, client))))
    }

    async fn evict_idle(&self) {
        self.idle.drop_old(self.time);
    }
}
