//! A tonic server with a frontend that checks its host: for tests/clients/test_hosts.py. usage: echoserver LIBRARY
use std::ffi::{CString, c_int, c_void};
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::{Server, server::TcpIncoming};
use trunnion_tonic::{Identity, Routes, ffi};

fn routes(library: &str) -> Option<Routes> {
    let library = CString::new(library).ok()?;
    let mut routes = std::ptr::null_mut();
    unsafe {
        let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOW);
        let create = if handle.is_null() { handle } else { libc::dlsym(handle, c"echo_routes_create".as_ptr()) };
        if create.is_null() {
            return None;
        }
        let create: unsafe extern "C" fn(*mut *mut ffi::trn_routes) -> c_int =
            std::mem::transmute::<*mut c_void, _>(create);
        (create(&mut routes) == 0).then(|| Routes::take(routes))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let routes = routes(&std::env::args().nth(1).unwrap_or_default()).ok_or("the frontend cannot be loaded")?;
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    println!("tonic: echo on sc://{}", incoming.local_addr()?);
    let router = tonic::service::Routes::default().into_axum_router().fallback_service(routes.mount());
    let identify = tonic::service::InterceptorLayer::new(|mut request: tonic::Request<()>| {
        if let Some(who) = request.metadata().get("who").and_then(|who| who.to_str().ok()).map(str::to_owned) {
            request.extensions_mut().insert(Identity(who));
        }
        Ok(request)
    });
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::builder().layer(identify).add_routes(router.into()).serve_with_incoming(incoming);
    tokio::select! {
        result = server => result?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
