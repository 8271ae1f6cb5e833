import { join } from "node:path";
import { DATABASE_URL } from "../config.ts";
import { DeployError } from "../errors.ts";
import { DEPLOY_FILE, type DeployFile, openDeployFile } from "../file/deploy-file.ts";
import { undecidedStore } from "../file/init-file.ts";
import { type FileOutcome, writeGenerated } from "../files.ts";
import { parseFlags } from "../flags.ts";
import { resolveName } from "../name.ts";
import type { Platform } from "../platform.ts";
import { readProject } from "../project.ts";
import { managerCommands } from "../templates.ts";
import { githubJobs, githubSetup, githubWorkflow } from "./github.ts";
import { gitlabJobs, gitlabPipeline } from "./gitlab.ts";
import { installLines } from "./install-lines.ts";
import type { Pipeline, PipelineJob } from "./model.ts";
import type { PipelineProvider, PipelineRequest, PipelineRight, Repository } from "./pipeline.ts";
import { readCheckout } from "./repository.ts";
import { PREVIEW } from "./short-name.ts";

export interface CiOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The environment that the branch deploys. @default prod if `deploy.yaml` lists it, else dev */
  readonly environment?: string | undefined;
  /** The branch that is deployed. @default that of git's remote, else main */
  readonly branch?: string | undefined;
  readonly overwrite: boolean;
  loadPlatform(name: string): Promise<Platform<never>>;
}

export interface CiOutcome {
  /** The file, relative to the repository's root. */
  readonly file: string;
  readonly outcome: FileOutcome["outcome"];
  readonly repository: Repository;
  readonly environment: string;
  readonly branch: string;
  readonly previews: boolean;
  /** Shell lines that a person runs once. */
  readonly setup: readonly string[];
  /** Secrets of the repository that jobs pass on, for values that are set there. */
  readonly secrets: readonly string[];
  readonly notes: readonly string[];
}

/** Writes the file of a pipeline for the project's `deploy.yaml`; a file that somebody edited is kept. */
export async function writeCi(provider: PipelineProvider, options: CiOptions): Promise<CiOutcome> {
  const { cwd, env } = options;
  const file = await openDeployFile(cwd);
  if (file === undefined) throw missing("There is no deploy.yaml", "Write it: svc deploy init");
  const { repository, root, folder, branch: known } = await readCheckout(cwd, env);
  const environment = options.environment ?? (file.environments.includes("prod") ? "prod" : "dev");
  const project = await readProject(cwd);
  if (project.lockFile === undefined)
    throw missing("There is no lock file", "A pipeline installs what a lock file names: run npm install");
  const branch = options.branch ?? known ?? "main";
  const previews = file.environments.includes(`${PREVIEW}*`);
  const notes = new Set<string>();
  const setup: string[] = [];
  let last = { place: "", seen: new Set<string>() };

  const jobOf = async (right: PipelineRight): Promise<PipelineJob> => {
    const of = right === "preview" ? PREVIEW : environment;
    const { request, platform, secrets, removalSecrets, files, commands, decided } = await requestOf(
      file,
      options,
      of,
    );
    if (environment === "prod" && of === environment && platform.ephemeralDisk && !decided)
      notes.add(
        `The job that deploys prod is refused as long as ${DEPLOY_FILE} does not say, and the running service does not show, ${undecidedStore(platform.name)}`,
      );
    for (const name of files)
      notes.add(
        `Secret ${name} comes from a file, which a pipeline does not have: it keeps its stored value`,
      );
    for (const name of commands)
      notes.add(
        `Secret ${name} comes from a command: install its program in the job that deploys, and sign it in there`,
      );
    const names = { repository, environment, branch };
    const trusted = provider === "github" ? githubJobs(names, right) : gitlabJobs(names, right);
    if (platform.pipeline === undefined)
      throw missing(
        `Platform ${platform.name} does not say how a pipeline signs in`,
        "Write the pipeline yourself: .deployment/DEPLOY_AUTOMATION.md has an example",
      );
    const login = platform.pipeline({ ...request, provider, right, trusted } as PipelineRequest<never>);
    // What two rights need in one place is made once; another place starts over.
    const place = `${platform.name} ${request.projectId ?? ""} ${request.region}`;
    const seen = place === last.place ? last.seen : new Set<string>();
    setup.push(...login.setup.filter((one) => !seen.has(one)));
    last = { place, seen: new Set([...seen, ...login.setup]) };
    for (const note of login.notes ?? []) notes.add(note);
    return right === "plan" ? { login, secrets: [], removalSecrets: [] } : { login, secrets, removalSecrets };
  };
  const jobs = {
    plan: await jobOf("plan"),
    deploy: await jobOf("deploy"),
    preview: previews ? await jobOf("preview") : undefined,
  };
  const commands = managerCommands(project);
  const pipeline: Pipeline = {
    repository,
    folder,
    branch,
    environment,
    nodeVersion: project.nodeVersion,
    manager: project.packageManager,
    lockFile: [folder.slice(0, folder.length - project.folder.length).replace(/\/$/, ""), project.lockFile]
      .filter(Boolean)
      .join("/"),
    install: [
      ...(commands.installTool === "" ? [] : [`npm install --global ${commands.installTool}`]),
      ...(await installLines(project, commands.installAll)),
    ],
    setsExpiry: previews && (await requestOf(file, options, PREVIEW)).expires,
    jobs,
  };
  if (provider === "github") setup.push(...githubSetup(pipeline));
  else
    notes.add(
      "A job's own token may not write notes on GitLab: for the plan as a comment, store a project access token (role Reporter, scope api) as the masked variable SVC_COMMENT_TOKEN",
    );
  if (!previews)
    notes.add(`No previews: list an environment "${PREVIEW}*" in ${DEPLOY_FILE}, and run this again`);
  const path = fileOf(provider, folder);
  const text = provider === "github" ? githubWorkflow(pipeline) : gitlabPipeline(pipeline);
  const outcome = await writeGenerated(join(root, path), text, options.overwrite);
  const secrets = [...new Set([...jobs.deploy.secrets, ...(jobs.preview?.secrets ?? [])])].sort();
  return {
    file: path,
    outcome,
    repository,
    environment,
    branch,
    previews,
    setup,
    secrets,
    notes: [...notes],
  };
}

/** A workflow per project where a repository has several; GitLab reads one file. */
function fileOf(provider: PipelineProvider, folder: string): string {
  if (provider === "gitlab") return ".gitlab-ci.yml";
  const name = folder === "" ? "deploy" : `deploy-${folder.replaceAll("/", "-")}`;
  return `.github/workflows/${name}.yml`;
}

/** What `deploy.yaml` says of an environment; rejects what only this machine's settings would add. */
async function requestOf(file: DeployFile, options: CiOptions, environment: string) {
  const probe = environment.endsWith("-") ? `${environment}x` : environment;
  const wanted = file.platformOf(probe);
  if (wanted === undefined) throw missing(`${DEPLOY_FILE} names no platform`, "Add it: platform: cloud-run");
  const platform = await options.loadPlatform(wanted);
  const { options: settings, flags, config } = await file.read(probe, platform, options.env);
  if (settings.name === undefined)
    throw missing(
      `${DEPLOY_FILE} has no name`,
      "Add it: a pipeline's folder is called otherwise than yours, and would make another service",
    );
  if (settings.region === undefined && platform.defaults !== undefined)
    throw missing(`${DEPLOY_FILE} has no region`, `Add it: region: ${platform.defaultRegion}`);
  const byCommand = config.secrets.filter(({ command }) => command !== undefined);
  const given = config.secrets
    .filter((secret) => !byCommand.includes(secret))
    .map(({ name, source = name }) => ({ name, source }));
  const request = {
    name: resolveName(settings.name, options.cwd),
    environment,
    region: settings.region ?? platform.defaultRegion,
    projectId: settings.projectId,
    storage: settings.storage,
    flags: parseFlags(platform.flags, flags),
  };
  const isVariable = ({ source }: { source: string }) => /^[A-Za-z_]\w*$/.test(source);
  return {
    request,
    platform,
    expires: settings.expires !== undefined,
    // Where jobs are stored; what only the running service shows is not known here.
    decided:
      settings.storage !== undefined ||
      config.store !== undefined ||
      config.secrets.some(({ name }) => name === DATABASE_URL),
    secrets: given.filter(isVariable).map(({ source }) => source),
    // A removal asks the service for its open jobs, and releases nothing.
    removalSecrets: given
      .filter((one) => one.name === "SERVICE_API_KEY" && isVariable(one))
      .map(({ source }) => source),
    files: given.filter((one) => !isVariable(one)).map(({ name }) => name),
    commands: byCommand.map(({ name }) => name),
  };
}

function missing(what: string, fix: string): DeployError {
  return new DeployError("usage", what, { outcome: "Nothing was written", fix });
}
