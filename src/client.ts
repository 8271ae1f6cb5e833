// A client of a service, for Node, browsers and other runtimes: uses `fetch` and streams only.

export type { AgentAt, AgentsIn, JsonResult, Slug, SlugOf } from "./client/agent-types.ts";
export { ClientError, type ClientErrorCode, JobFailedError } from "./client/client-error.ts";
export { type Client, client, type JobPage } from "./client/create-client.ts";
export type { ClientOptions } from "./client/http.ts";
export type { JobEvent } from "./client/job-events.ts";
export type { JobToken, RemoteJob, TypedJob } from "./client/remote-job.ts";
export type { TokenScope } from "./core/http/job-tokens.ts";
export type { ListedJob } from "./core/models/listed-job.ts";
