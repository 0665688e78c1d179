//! A tonic server with Spark Connect mounted in it. usage: sparkserver [ENGINE FUNCTIONS]
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::{Server, server::TcpIncoming};
use trunnion_tonic::Routes;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let routes = Routes::embedded(arguments.first().map(String::as_str), arguments.get(1).map(String::as_str))?;
    // Without nodelay the kernel holds the end of every answer back until the client has acknowledged its start.
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("tonic: Spark Connect on sc://{}", incoming.local_addr()?);
    // The program's own services would be added to these Routes; ours answer the rest.
    let router = tonic::service::Routes::default().into_axum_router().fallback_service(routes.mount());
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::builder().add_routes(router.into()).serve_with_incoming(incoming);
    tokio::select! {
        result = server => result?,
        _ = terminate.recv() => {} // calls that run are dropped, and so cancelled
    }
    Ok(())
}
