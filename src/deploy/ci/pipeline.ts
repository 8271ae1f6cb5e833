/** A repository on a code host. */
export interface Repository {
  /** Such as `github.com`. */
  readonly host: string;
  /** Such as `acme/agents`. */
  readonly path: string;
}

/** Whose tokens a platform accepts: those of one issuer that name exactly these jobs. */
export interface TrustedJobs {
  /** URL of the issuer. */
  readonly issuer: string;
  /** Audience that the tokens are made for. */
  readonly audience: string;
  readonly repository: Repository;
  /** Claim that has the repository's path. */
  readonly repositoryClaim: string;
  /** Claim `sub` of the jobs; it may end in `*`. */
  readonly subject: string;
}

/** A job that is to sign in to a platform. */
export interface PipelineRequest<Flags = Record<string, unknown>> {
  /** The code host whose jobs deploy. */
  readonly provider: "github" | "gitlab";
  /** What the job may do: read what a deployment would change, deploy an environment, or run previews of branches. */
  readonly right: "plan" | "deploy" | "preview";
  readonly trusted: TrustedJobs;
  /** Base name of the service. */
  readonly name: string;
  /** The environment that is deployed; of previews, the start of their names. */
  readonly environment: string;
  readonly region: string;
  readonly projectId: string | undefined;
  /** Bucket of the service's jobs, as it was given. */
  readonly storage: string | undefined;
  readonly flags: Flags;
}

export type PipelineProvider = PipelineRequest["provider"];
export type PipelineRight = PipelineRequest["right"];

/** How a job signs in to a platform, without a key that lasts where the platform allows that. */
export interface PipelineLogin {
  /** Steps of a job on GitHub. An action is named by its commit, with its tag for people: `owner/name@commit # v1.2.3`. */
  readonly steps?: readonly Readonly<Record<string, unknown>>[];
  /** Variables of the job; on GitHub with its expressions. */
  readonly env?: Readonly<Record<string, string>>;
  /** Shell lines of a job on GitLab. Its token is in `SVC_ID_TOKEN`. */
  readonly script?: readonly string[];
  /** Whether the job needs an identity token of its code host. */
  readonly federated: boolean;
  /** Whether the image is built where the job runs. */
  readonly needsDocker: boolean;
  /** Shell lines that a person runs once, with comments. */
  readonly setup: readonly string[];
  /** What to know about it. */
  readonly notes?: readonly string[];
}

/** The variable of a job on GitLab that has its identity token. */
export const ID_TOKEN = "SVC_ID_TOKEN";

/**
 * The name of a variable or secret of the repository that one environment of one service has for itself. What another one has
 * under the same name may be in another account, and would replace it.
 */
export function ownVariable(
  { name, environment }: Pick<PipelineRequest, "name" | "environment">,
  base: string,
) {
  const part = (text: string) =>
    text
      .replace(/[^A-Za-z0-9]+/g, "_")
      .replace(/^_|_$/g, "")
      .toUpperCase();
  return `${base}__${part(name)}__${part(environment)}`;
}

/** The line by which a person sets a variable of the repository; values in `$NAME` are expanded by their shell. */
export function setVariable(
  { provider, trusted }: Pick<PipelineRequest, "provider" | "trusted">,
  name: string,
  value: string,
): string {
  const { host, path } = trusted.repository;
  const repository = host === "github.com" || host === "gitlab.com" ? path : `https://${host}/${path}`;
  return provider === "github"
    ? `gh variable set ${name} --repo ${repository} --body "${value}"`
    : `glab variable set ${name} "${value}" --repo ${repository}`;
}

/** The line by which a person stores a secret of the repository; it asks for the value, or reads a file. */
export function setSecret(
  { provider, trusted }: Pick<PipelineRequest, "provider" | "trusted">,
  name: string,
  file?: string,
): string {
  const { host, path } = trusted.repository;
  const repository = host === "github.com" || host === "gitlab.com" ? path : `https://${host}/${path}`;
  if (provider === "github")
    return `gh secret set ${name} --repo ${repository}${file === undefined ? "" : ` < ${file}`}`;
  const input = file === undefined ? "" : ` < ${file}`;
  return `glab variable set ${name} --masked --protected=false --repo ${repository}${input}`;
}
