import type { DeployTools } from "../../../deploy/tools.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { checkEndpoint } from "../cloud/endpoint.ts";
import { explainFailure } from "../cloud/explain-failure.ts";
import { type RestRequest, sendRest } from "../cloud/rest.ts";
import { type Propagation, retrying } from "../cloud/retry.ts";
import type { GoogleIdentity } from "./credentials.ts";
import { isDisabledApi, isNotFound, toGoogleError } from "./google-error.ts";

/** APIs that a deployment calls. */
export type GoogleApi =
  | "run"
  | "artifactregistry"
  | "secretmanager"
  | "cloudbuild"
  | "serviceusage"
  | "cloudresourcemanager"
  | "cloudbilling"
  | "storage"
  | "logging"
  | "iam";

export interface GoogleCall<T> extends Pick<RestRequest, "query" | "body" | "stream" | "headers"> {
  /** Making the call twice has the same effect as once. */
  readonly idempotent?: boolean;
  readonly reread?: () => Promise<T | undefined>;
}

/** Google's REST APIs with credentials, retries and the waiting that new projects need. */
export class Google {
  readonly identity: GoogleIdentity;
  readonly #tools: DeployTools;
  /** APIs that this deployment enabled: for minutes they may still respond that they are disabled. */
  #fresh = false;

  constructor(tools: DeployTools, identity: GoogleIdentity) {
    this.#tools = tools;
    this.identity = identity;
  }

  /** Records that an API was enabled a moment ago. */
  expectPropagation(): void {
    this.#fresh = true;
  }

  get<T>(api: GoogleApi, path: string, query?: RestRequest["query"]): Promise<T> {
    return this.send<T>(api, "GET", path, { query, idempotent: true });
  }

  /** Reads; undefined for what does not exist, such as anything in a disabled API. */
  async find<T>(api: GoogleApi, path: string, query?: RestRequest["query"]): Promise<T | undefined> {
    try {
      return await this.get<T>(api, path, query);
    } catch (error) {
      if (isNotFound(error) || (!this.#fresh && error instanceof CloudError && isDisabledApi(error)))
        return undefined;
      throw error;
    }
  }

  /** The pages of a list; none of what does not exist, such as anything in a disabled API, where it `mayMiss`. */
  async *pages<T extends object>(
    api: GoogleApi,
    path: string,
    query: RestRequest["query"] = {},
    mayMiss = false,
  ): AsyncGenerator<T> {
    let pageToken: string | undefined;
    do {
      const asked = { ...query, pageToken };
      const page: (T & { nextPageToken?: string }) | undefined = mayMiss
        ? await this.find(api, path, asked)
        : await this.get(api, path, asked);
      if (page === undefined) return;
      yield page as Awaited<T>;
      pageToken = page.nextPageToken || undefined;
    } while (pageToken !== undefined);
  }

  async send<T>(
    api: GoogleApi,
    method: RestRequest["method"],
    path: string,
    call: GoogleCall<T> = {},
  ): Promise<T> {
    const url = `${this.#endpoint(api)}${path}`;
    try {
      return await retrying(() => this.#once<T>({ method, url, ...call }), {
        tools: this.#tools,
        idempotent: call.idempotent ?? false,
        reread: call.reread,
        propagation: this.#fresh ? FRESH : [],
      });
    } catch (error) {
      throw explainFailure(this.#tools, error, { provider: "Google", url, login: this.identity.renew });
    }
  }

  async #once<T>(request: RestRequest): Promise<T> {
    const { quotaProject } = this.identity;
    const headers = {
      authorization: `Bearer ${await this.identity.token()}`,
      ...(quotaProject === undefined ? {} : { "x-goog-user-project": quotaProject }),
      ...request.headers,
    };
    return sendRest<T>(this.#tools, { ...request, headers }, (refusal) =>
      toGoogleError(refusal, this.#tools.now()),
    );
  }

  #endpoint(api: GoogleApi): string {
    const variable = `CLOUDSDK_API_ENDPOINT_OVERRIDES_${api.toUpperCase()}`;
    const own = this.#tools.env[variable];
    if (!own) return `https://${api}.googleapis.com`;
    // gcloud keeps the path of this one API in its endpoint; ours is in the calls.
    return checkEndpoint(own, variable).replace(/\/storage\/v1$/, "");
  }
}

const FIVE_MINUTES = 300_000;

/** What a new project responds for a while after an API was enabled. */
const FRESH: readonly Propagation[] = [
  { what: "the enabled API to be usable", matches: isDisabledApi, budget: FIVE_MINUTES },
  {
    what: "permissions of the new project",
    matches: (error) => error.status === 403 && error.code === "PERMISSION_DENIED",
    budget: 120_000,
  },
];
