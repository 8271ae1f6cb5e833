import { rsaKeyNames } from "../../../core/base/numbered-keys.ts";
import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { storeOf } from "../../../deploy/job-store.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { releaseActions, resourceAction } from "../cloud/actions.ts";
import type { Releasing } from "./change.ts";
import { type Context, namesOf } from "./context.ts";
import { hasDatabase, readVolumes } from "./database.ts";
import { portFindings } from "./preflight.ts";
import { isServed } from "./proxy.ts";
import { parseRecord, type ServerRecord, settingChanges, wantedSettings } from "./record.ts";
import { serverSecrets } from "./secrets.ts";

/** What a release would change. */
export async function planRelease(
  context: Releasing,
  spec: ReleaseSpec,
  live: Release | undefined,
): Promise<ResourceAction[]> {
  const { serviceName } = context.target;
  const before = live === undefined ? undefined : parseRecord(String(live.data?.record));
  const settings = wantedSettings(context.target, spec.port, before);
  const stopped =
    live === undefined || live.status.startsWith("running")
      ? []
      : [{ field: "status", from: live.status, to: "running" }];
  // A run was killed after it had started the container: nobody knows yet whether it becomes healthy, and no rollback would keep it.
  const unfinished =
    live?.data?.unfinished === true ? [{ field: "container", from: "started", to: "checked and kept" }] : [];
  if (settings.domain === undefined && before?.port !== spec.port) {
    const [taken] = await portFindings(context, spec.port, settings.bind);
    if (taken !== undefined)
      throw new DeployError("preflight", `${taken.subject}: ${taken.message}`, {
        outcome: "Nothing was changed",
        ...(taken.fix === undefined ? {} : { fix: taken.fix }),
      });
  }
  const volumes = await readVolumes(context);
  if (live === undefined && context.target.flags.postgres === undefined) await refuseLeft(context, volumes);
  return [
    resourceAction(
      "volume",
      namesOf(serviceName).data,
      volumes.data,
      storeOf({ env: spec.env, secretNames: Object.keys(spec.secrets) }) === "file"
        ? "Jobs and cases, kept over updates and restarts"
        : `Files, kept over updates and restarts${live === undefined && volumes.data && !volumes.database ? "; jobs of an earlier deployment in them are not moved into the database" : ""}`,
    ),
    ...(settings.postgres === undefined
      ? []
      : [
          resourceAction(
            "database",
            settings.postgres,
            await hasDatabase(context, settings),
            live === undefined && volumes.database
              ? `Jobs and cases of an earlier deployment: ${hasRsaKey(storedNames(spec)) ? "the SERVICE_RSA_PRIVATE_KEY that is stored on the server reads them" : "only the SERVICE_RSA_PRIVATE_KEY that it had reads them"}`
              : "Jobs and cases, in a Postgres beside the service with a volume of its own",
          ),
        ]),
    ...(settings.domain === undefined
      ? []
      : [
          resourceAction(
            "proxy",
            settings.domain,
            await isServed(context, settings),
            "HTTPS, by the server's Caddy",
          ),
        ]),
    ...releaseActions({
      serviceName,
      spec,
      live,
      changes: [...settingChanges(settings, before), ...stopped, ...unfinished],
    }),
  ];
}

type Volumes = Awaited<ReturnType<typeof readVolumes>>;

/** The secrets that the service gets as they are stored. */
function storedNames({ secrets }: ReleaseSpec): string[] {
  return Object.keys(secrets).filter((name) => secrets[name] !== undefined);
}

const hasRsaKey = (names: readonly string[]) => rsaKeyNames(names).length > 0;

/** A service that begins without the database that it once had would seem to have lost its jobs. */
async function refuseLeft(context: Context, { database }: Volumes): Promise<void> {
  if (database === undefined) return;
  const { target, ssh } = context;
  const stored = await serverSecrets(context).listSecrets();
  const key = hasRsaKey(stored.map(({ name }) => name))
    ? "; the keys that read them are stored on the server"
    : ", and in the environment the SERVICE_RSA_PRIVATE_KEY that the service had: it is not stored on the server";
  throw new DeployError(
    "preflight",
    `Database: the volume ${namesOf(target.serviceName).database} on ${ssh.host} has the jobs of an earlier deployment, and this one would not use it`,
    {
      outcome: "Nothing was changed",
      fix: `To continue with them: ${again(database)}${key}. To begin without them: --postgres none`,
    },
  );
}

/** The option with which a database has its volume again. */
function again({ image }: NonNullable<Volumes["database"]>): string {
  return image === undefined ? "--postgres with an image of its major version" : `--postgres ${image}`;
}

/** The option with which a deployment continues with the database that an earlier one left, unless it says which it has. */
export async function optionsOfLeft(context: Context): Promise<string[]> {
  if (context.target.flags.postgres !== undefined) return [];
  const image = (await readVolumes(context)).database?.image;
  return image === undefined ? [] : ["--postgres", image];
}

/** What a removal leaves, and how a service has it again; or that it is deleted. */
export async function planVolumes(
  context: Context,
  live: ServerRecord | undefined,
): Promise<ResourceAction[]> {
  const volumes = await readVolumes(context);
  const { data, database } = namesOf(context.target.serviceName);
  const volume = (name: string, what: string, again: string): ResourceAction => ({
    ...resourceAction("volume", name, true, ""),
    ...(context.target.flags.removeData
      ? { action_type: "delete", description: `deleted, with ${what}` }
      : { description: `stays, with ${what}: ${again} uses it` }),
  });
  const image = live?.postgres ?? volumes.database?.image;
  const isFile =
    live === undefined || storeOf({ ...live, secretNames: Object.keys(live.secrets) }) === "file";
  const files = isFile && !volumes.database ? "jobs and cases" : "files";
  return [
    ...(volumes.data ? [volume(data, files, "the next svc deploy up")] : []),
    ...(volumes.database ? [volume(database, "jobs and cases", `svc deploy up ${again({ image })}`)] : []),
  ];
}
