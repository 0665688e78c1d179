//! A tonic server with Spark Connect mounted in it. usage: sparkserver [ENGINE FUNCTIONS]
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use trunnion_tonic::Routes;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let routes = Routes::embedded(arguments.first().map(String::as_str), arguments.get(1).map(String::as_str))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("tonic: Spark Connect on sc://{}", listener.local_addr()?);
    let router = tonic::service::Routes::default().into_axum_router().fallback_service(routes.mount());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tonic::transport::Server::builder()
        .add_routes(router.into())
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move {
            terminate.recv().await;
        })
        .await?;
    Ok(())
}
