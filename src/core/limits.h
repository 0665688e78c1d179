/* Every size, depth, count and time limit that guards against input has its name here. */
#ifndef TRN_CORE_LIMITS_H
#define TRN_CORE_LIMITS_H

#define TRN_WIRE_DEPTH_MAX 1024            /* nesting of a protobuf message from outside; Spark's own server: 1024 */
#define TRN_WIRE_NODES_MAX (4u << 20)      /* messages inside one message */
#define TRN_ARENA_BYTES_MAX (1ull << 30)   /* memory of one request */
#define TRN_PLAN_DEPTH_MAX 8192            /* nesting of relations and expressions in a resolved plan */
#define TRN_TYPE_DEPTH_MAX 64              /* nesting of a data type */
#define TRN_TYPE_NODES_MAX (1u << 17)      /* data types inside one data type */
#define TRN_SCHEMA_NODES_MAX (1u << 21)    /* data types inside the schema of a result */
#define TRN_PLAN_PRINT_BYTES_MAX (16u << 20) /* of a plan's text; what is longer is cut */
#define TRN_SQL_BYTES_MAX (64u << 20)      /* length of a SQL text */
#define TRN_SQL_DEPTH_MAX 4096             /* nesting inside a SQL text */
#define TRN_SQL_PRINT_DEPTH_MAX 1000u      /* of a plan that becomes SQL text; SQLite's own limit is the same */
#define TRN_NEAREST_BY_RESULTS_MAX 100000  /* rows of a NEAREST BY join per row; Spark: the same */
#define TRN_SQL_LAMBDA_VARIABLES_MAX 256   /* variables of lambdas inside each other */
#define TRN_STACK_BYTES (32u << 20)        /* stack of threads on which plans are decoded, translated, lowered */
#define TRN_SESSION_IDLE_MS (3600u * 1000) /* Spark: spark.connect.session.manager.defaultSessionTimeout */
#define TRN_SESSION_SETTINGS_MAX 10000     /* explicitly set keys of one session */
#define TRN_SESSION_GROUP_SETS_MAX 1000u   /* different sets of groups that a user has had during one session */
#define TRN_SESSIONS_MAX 10000
#define TRN_OPERATIONS_PER_SESSION_MAX 1000
#define TRN_RESPONSE_LOG_BYTES (64u << 20) /* unreleased responses of one operation before its source is paused */
#define TRN_DETACHED_MS (300u * 1000)      /* Spark: spark.connect.execute.manager.detachedTimeout */
#define TRN_ROUTES_MAX 10000u                /* methods in one table of routes */
#define TRN_TRANSLATE_DEPTH_MAX 6000u        /* nesting of Spark relations and expressions while they are translated */
#define TRN_TRANSLATE_RELATIONS_MAX 200000u  /* relations of one plan, views expanded */
#define TRN_TRANSLATE_STEPS_MAX (2u << 20)   /* nodes of one plan, each as often as it is translated */
#define TRN_VIEW_DEPTH_MAX 100u              /* views in views; Spark: spark.sql.view.maxNestedViewDepth */
#define TRN_GROUPING_KEYS_MAX 64u            /* keys of ROLLUP, CUBE, GROUPING SETS: bits of a set */
#define TRN_GROUPING_SETS_MAX 4096u          /* sets of one aggregation */
#define TRN_PIVOT_VALUES_MAX 10000u          /* of a pivot that finds them; Spark: spark.sql.pivotMaxValues */
#define TRN_TRANSPOSE_ROWS_MAX 500u          /* Spark: spark.sql.transposeMaxValues */
#define TRN_FREQUENT_VALUES_MAX 1000000u     /* different values that freqItems looks at */
#define TRN_RECURSION_LEVELS_MAX 100          /* steps of a recursive CTE; Spark: spark.sql.cteRecursionLevelLimit */
#define TRN_RECURSION_ROWS_MAX 1000000u      /* rows of one; Spark: spark.sql.cteRecursionRowLimit */
#define TRN_SOURCE_CACHE_MAX 256u            /* inferred sources that a session keeps */
#define TRN_SOURCE_FILES_MAX 10000u          /* files whose change is watched for one cached source */
#define TRN_INPROC_MESSAGE_BYTES_MAX (128u << 20) /* a request message without a network; as the bundled server */
#define TRN_INPROC_SEND_HIGH_WATER (1u << 20)     /* unread response bytes of one call */
#define TRN_SHOW_BYTES_MAX (256u << 20)     /* text of the rows that a show collects */
#define TRN_CHECKPOINT_BYTES_MAX (256u << 20) /* rows that a checkpoint keeps; larger ones are computed again */
#define TRN_PLAN_TREE_RELATIONS_MAX 20000u        /* of a plan whose shared parts are written out, as an engine does */
#define TRN_PLAN_TREE_EXPRESSIONS_MAX (1u << 20)  /* likewise; without rows of literals */
#define TRN_CONFIG_DEPTH_MAX 32u             /* nesting of a configuration */
#define TRN_CONFIG_NODES_MAX (1u << 20)      /* values in one configuration: tables of users and policies are there too */
#define TRN_EDIT_DISTANCE_BYTES_MAX 256      /* texts up to here are compared letter by letter */
#define TRN_CONFIG_NAME_MAX 256u             /* longest name that a suggestion is looked for */
#define TRN_CACHE_FILES_MAX 100000u          /* results that a cache finds in its directory */
#define TRN_CACHE_TEXTS_MAX (1u << 20)       /* names of tables and paths in the head of such a file */
#define TRN_REGISTRY_ENTRIES_MAX 10000u      /* things of one kind in a registry */
#define TRN_REGISTRY_NAME_MAX 1024u          /* length of a registered name */
#define TRN_DECODE_WAIT_MS (300u * 1000)     /* for the answer of a decoder that answers later */
#define TRN_EXTENSION_DEPTH_MAX 64u          /* messages of somebody's own inside each other: each is parsed anew */
#define TRN_EXTENSION_OPTIONS_MAX 1000u      /* options of an encoded query */
#define TRN_CLIENT_MESSAGE_BYTES_MAX (128u << 20)      /* a response message, unless the channel says otherwise */
#define TRN_CLIENT_RETRY_BYTES_MAX (256u << 10)        /* sent messages that a call keeps for a retry; likewise */
#define TRN_CLIENT_RETRY_BACKOFF_MS 100u
#define TRN_CLIENT_RETRY_BACKOFF_MS_MAX 5000u
#define TRN_CLIENT_ATTEMPTS_MAX 100u
#define TRN_CLIENT_TRANSPARENT_RETRIES_MAX 3u          /* of a call that the server did not see */
#define TRN_WAREHOUSE_TRANSACTIONS_MAX 256u      /* at a time: each has a connection to its catalog, and files open */
#define TRN_FLIGHT_TRANSACTIONS_MAX 16u          /* of a session */
#define TRN_FLIGHT_SAVEPOINTS_MAX 1000u          /* of a transaction */
#define TRN_FLIGHT_TRANSACTION_MS (300u * 1000)  /* one that nobody uses is rolled back after */
#define TRN_FLIGHT_WIRE_DEPTH_MAX 64             /* nesting of a Flight or Flight SQL message */
#define TRN_FLIGHT_WIRE_NODES_MAX (1u << 18)     /* messages inside one */
#define TRN_FLIGHT_MESSAGE_BYTES_MAX (128u << 20) /* a request message: SQL text, one FlightData of a DoPut */
#define TRN_FLIGHT_SQL_BYTES_MAX (16u << 20)     /* length of a SQL text: planners keep several copies of one */
#define TRN_FLIGHT_BATCH_BYTES (2u << 20)        /* of a DoGet message; grpc-go, tonic and Grafana take 4 MiB */
#define TRN_FLIGHT_SESSIONS_MAX 100000u
#define TRN_FLIGHT_STATEMENTS_MAX 1000u          /* queries of a session whose result was not fetched */
#define TRN_FLIGHT_PREPARED_MAX 10000u           /* prepared statements of a session */
#define TRN_FLIGHT_PREPARED_BYTES_MAX (256u << 20) /* their texts and parameters */
#define TRN_FLIGHT_RESULT_MS (300u * 1000)       /* an unfetched result is dropped after */
#define TRN_FLIGHT_FETCHED_MAX 64u               /* results of a session that can be fetched once more */
#define TRN_FLIGHT_PARAMETERS_MAX 10000u         /* placeholders of one statement */
#define TRN_FLIGHT_PARAMETER_BYTES_MAX (64u << 20) /* Arrow data that is bound to a statement */
#define TRN_FLIGHT_PARAMETER_ROWS_MAX 100000u
#define TRN_FLIGHT_ENDPOINTS_MAX 64u             /* that a session may ask a result to have */
#define TRN_FLIGHT_LOCATIONS_MAX 16u             /* of an endpoint */
#define TRN_FLIGHT_LOCATION_BYTES_MAX 1024u
#define TRN_FLIGHT_PART_BYTES (16u << 20)        /* of a polled result: each is an endpoint; later ones are larger */
#define TRN_FLIGHT_PARTS_MAX 1024u               /* about: parts double each eighth of them */
#define TRN_FLIGHT_WAITING_BYTES (256u << 20)    /* of waiting results in memory, of all sessions; what is more goes to files */
#define TRN_FLIGHT_WAITING_RESULT_MAX (64ull << 30) /* one result that waits in parts */
#define TRN_FLIGHT_FIRST_POLL_MS 50u             /* a quick query's first poll has all of it */
#define TRN_FLIGHT_POLL_MS 2000u                 /* a poll waits as long for news */
#define TRN_FLIGHT_POLLS_MAX 64u                 /* calls that wait for one result */
#define TRN_FLIGHT_TEMPORARY_PARTS_MAX 1000u     /* statements that added rows to one temporary table */
#define TRN_FLIGHT_SPOOL_BYTES (32u << 20)       /* of an ingestion in memory; what is more goes to a file */
#define TRN_IPC_READ_NODES_MAX (1u << 17)        /* fields and buffers in Arrow data from outside */
#define TRN_POLICY_TEXT_BYTES_MAX (64u << 10) /* of a row filter or mask */
#define TRN_POLICY_TEXT_DEPTH_MAX 1200u       /* nesting inside one, in steps of its parser: about 150 parentheses */
#define TRN_DECISION_WAIT_MS (30u * 1000)     /* for an embedder's answer about a policy */
#define TRN_LIVE_PASSES_MAX 100u              /* over a plan, to find which columns are needed; then all are */
#define TRN_POLICY_NAME_MAX 4096u             /* longest name or path that a rule is compared with */
#define TRN_POLICY_FILES_MAX 100000u          /* files looked at to compare a directory with rules, or for its version */
#define TRN_POLICY_FOLDERS_DEPTH_MAX 64u      /* nesting of directories, likewise */
#define TRN_VARIABLES_MAX 10000u              /* session variables of one session */
#define TRN_EXECUTE_IMMEDIATE_DEPTH_MAX 16u   /* EXECUTE IMMEDIATE of EXECUTE IMMEDIATE of ... */
#define TRN_ROUTINES_MAX 10000u               /* SQL functions of one session */
#define TRN_KNOWN_PARTITIONS_MAX 1000u       /* of an external table; with more, all directories below it are read */
#define TRN_BALLISTA_TIMEOUT_MS (20u * 1000)          /* for a scheduler's answer, as its own client waits */
#define TRN_BALLISTA_MESSAGE_BYTES_MAX (128u << 20)   /* a message of a scheduler or an executor */
#define TRN_BALLISTA_BACKOFF_MS_MAX 5000u             /* between connects */
#define TRN_BALLISTA_KEEPALIVE_MS (20u * 1000)        /* silence, then a PING; as much again, then the peer is lost */
#define TRN_BALLISTA_IDLE_MS (60u * 1000)             /* a connection that nothing uses is closed after */
#define TRN_BALLISTA_ATTEMPTS_MAX 4u                  /* of a call that only asks, while the scheduler is away */
#define TRN_BALLISTA_EXECUTORS_MAX 10000u             /* whose channels are kept */
#define TRN_BALLISTA_LOCATIONS_MAX (1u << 20)         /* partitions of one output */
#define TRN_BALLISTA_ID_BYTES_MAX 256u                /* of a job */
#define TRN_JOB_ID_BYTES_MAX 128u             /* a name of a file */
#define TRN_JOB_QUERY_BYTES_MAX (64u << 20)  /* a larger query is not recorded, and cannot be submitted again */
#define TRN_JOB_ATTEMPTS_MAX 5u              /* of one that is lost each time: then it is not submitted again */
#define TRN_JOB_EVENTS_MAX 10000u            /* of one attempt; counts of more are merged */
#define TRN_JOB_TAGS_MAX 1000u
#define TRN_JOB_TEXT_BYTES_MAX (64u << 10)   /* of a job's error message, tag or name in a store */
#define TRN_JOB_LIST_MAX 10000u              /* records of one answer */
#define TRN_JOB_PIECE_BYTES (2u << 20)       /* of an output's batches in files */
#define TRN_JOB_MESSAGE_BYTES_MAX (1u << 30) /* of one in a file that is read */
#define TRN_BALLISTA_REQUEST_BYTES_MAX (64u << 20)   /* a request of a Ballista client, with its plan; Ballista's scheduler: 16 MiB */
#define TRN_BALLISTA_WIRE_DEPTH_MAX 16u              /* nesting of one; plans in it are bytes */
#define TRN_BALLISTA_WIRE_NODES_MAX 100000u          /* settings and options in one */
#define TRN_BALLISTA_RESULT_BYTES (16u << 20)        /* of a job's rows in memory; a larger result is made as it is fetched */
#define TRN_BALLISTA_RESULTS_BYTES (256u << 20)      /* of all jobs together */
#define TRN_BALLISTA_RESULT_MS (300u * 1000)         /* a result that nobody fetches is dropped after; Ballista: the same */
#define TRN_BALLISTA_JOB_MS (3600u * 1000)           /* and the job is forgotten after; Ballista: the same */
#define TRN_BALLISTA_JOBS_MAX 100000u                /* that are remembered: the oldest of the finished ones go */
#define TRN_BALLISTA_RUNNING_MAX 1000u               /* that run, or whose rows are still to be made: each holds a message of them */
#define TRN_BALLISTA_NAME_BYTES_MAX 1024u            /* of a job's name; a longer one is cut */
#define TRN_BALLISTA_SETTINGS_BYTES_MAX (64u << 10)  /* that a client keeps in one session */
#define TRN_BALLISTA_SESSIONS_MAX 10000u             /* sets of settings that clients keep */
#define TRN_BALLISTA_METRICS_BYTES_MAX (4u << 20)    /* of one job, kept when it is over */
#define TRN_BALLISTA_PARTITIONS_MAX 32u              /* columns that a COPY or INSERT partitions by */
#define TRN_BALLISTA_BATCH_BYTES_MAX (1u << 30)       /* a record batch of an executor, decompressed */
#define TRN_BALLISTA_POLL_FIRST_MS 3u                 /* before a job is asked for; a quarter more each time, up to */
#define TRN_BALLISTA_POLL_QUICK 12u                   /* in its first */
#define TRN_BALLISTA_POLL_QUICK_MS 1000
#define TRN_BALLISTA_POLL_MS 50u                      /* then, up to */
#define TRN_BALLISTA_POLL_SLOW_AFTER_MS (30 * 1000)
#define TRN_BALLISTA_POLL_MS_MAX 250u                 /* then; and whenever many are followed: */
#define TRN_BALLISTA_POLL_JOBS 8u                     /* for so many more, as much again between two questions */
#define TRN_BALLISTA_MISSES_MAX 2u                    /* questions about a job that a scheduler did not answer; then it is lost */
#define TRN_BALLISTA_UNKNOWN_MS (10u * 1000)          /* a job that was just taken may be unknown for */
#define TRN_BALLISTA_INLINE_BYTES (64u << 10)         /* rows that travel inside of a plan */
#define TRN_BALLISTA_FETCH_BYTES (32u << 20)          /* results that wait for a client, of one query */
#define TRN_BALLISTA_FETCHES 4u                       /* partitions fetched at once, of one query */
#define TRN_BALLISTA_FUNCTIONS_NS (60 * INT64_C(1000000000)) /* what is known of a cluster's functions is asked again after */
#define TRN_BALLISTA_SPOOL_BYTES_MAX (UINT64_C(16) << 30) /* files of rows that clients sent along, together */
#define TRN_BALLISTA_TRIVIAL_ROWS 1000u               /* a query of so many literal rows is not worth a job */

#define TRN_TEXT_SOURCE_BYTES_MAX (1u << 30) /* of the text files of one read, which are in memory */
#define TRN_SCRIPT_STEPS_MAX 1000000u      /* statements and rounds of loops that one script runs */
#define TRN_SCRIPT_CONDITIONS_MAX 1000u    /* that a block of a script declares, and that its handlers name */
#define TRN_SCRIPT_ROWS_MAX 100000u        /* of a FOR's query */
#define TRN_SCRIPT_BYTES_MAX (64u << 20)   /* of the rows that a script answers with */
#define TRN_LAMBDA_LAYOUT_MAX 64u          /* letters in a trn_lambda_function's arguments */

#endif
