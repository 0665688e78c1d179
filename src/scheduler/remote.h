/* What the files about jobs on a cluster share. */
#ifndef TRN_SCHEDULER_REMOTE_H
#define TRN_SCHEDULER_REMOTE_H
#include "backend/ballista/backend.h"
#include "scheduler/scheduler.h"

/* Locations as records have them: "grpc://host:port" of whoever serves it, and Flight's ticket, which holds the rest.
 */
trn_status trn__remote_locations(trn_arena *arena, const trn_ballista_client *client, const trn_ballista_job *job,
                                 trn_job_location **out);
/* A job of one location, which is fetched from where the record says. Gives `*out`. DATA_LOSS: it is none. */
trn_status trn__remote_location(const trn_job_record *record, size_t index, trn_ballista_job **out, trn_error **error);

/* The schema of a plan's result, as an encapsulated IPC message. */
trn_status trn__remote_schema(trn_plan *plan, trn_strbuf *out, trn_error **error);

/* The recorded output as a stream. */
trn_status trn__remote_output_open(trn_ballista_client *client, const trn_job_record *record, trn_stream **out,
                                   trn_error **error);

#endif
