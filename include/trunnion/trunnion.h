/* Trunnion: protocols of query engines, to be mounted in your own server and run by your own backend.
 *
 * Everything the library does to its host process:
 *  - Threads: none until something is created. A Spark frontend starts worker threads on demand (32 MiB stacks, reserved,
 *    not touched), and so does a stream that cuts a backend's arrays into IPC pieces (one thread); a scheduler of jobs starts
 *    workers, one thread that renews its lease, and one for each output that is read; the bundled server
 *    (libtrunnion_server) starts one per event loop; the embedded backend's engine runs a thread pool of its own.
 *  - File descriptors: those of the bundled server, of a warehouse, of layers that keep files (logs, a cache), of job stores and
 *    of outputs of jobs, and those
 *    that the engine opens to read data and spill.
 *  - Files are read when a function is given their path: plugins, users, tokens, keys. A plugin is loaded into the process,
 *    and so is libpq by the job store on PostgreSQL.
 *  - Signals: no handler is installed, none is raised; sockets are written with MSG_NOSIGNAL or the like.
 *  - Environment: not written; TMPDIR is read by a catalog in memory, which makes a directory there when a table gets rows,
 *    and removes it at its end. Output: nothing is printed. The process is never exited or aborted by the C
 *    library; the engine, being Rust, aborts when the system is out of memory.
 *  - Unloading: libtrunnion may be unloaded when everything made from it is gone; the engine stays loaded.
 *  - Memory: malloc/free of the process; the engine uses an allocator of its own.
 */
#ifndef TRUNNION_TRUNNION_H
#define TRUNNION_TRUNNION_H
#include <trunnion/arrow.h>
#include <trunnion/auth.h>
#include <trunnion/backend.h>
#include <trunnion/build.h>
#include <trunnion/call.h>
#include <trunnion/catalog.h>
#include <trunnion/config.h>
#include <trunnion/decoder.h>
#include <trunnion/client.h>
#include <trunnion/error.h>
#include <trunnion/export.h>
#include <trunnion/frontend.h>
#include <trunnion/function.h>
#include <trunnion/layer.h>
#include <trunnion/operation.h>
#include <trunnion/plan.h>
#include <trunnion/plugin.h>
#include <trunnion/registry.h>
#include <trunnion/scheduler.h>
#include <trunnion/session.h>
#include <trunnion/sql.h>
#include <trunnion/stream.h>
#include <trunnion/table.h>
#include <trunnion/translator.h>

#ifdef __cplusplus
extern "C" {
#endif
/** "0.1.0". */
TRN_API const char *trn_version(void);
#ifdef __cplusplus
}
#endif
#endif
