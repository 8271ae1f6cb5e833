import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import * as v from "valibot";
import { needed, option } from "../../core/base/option.ts";
import { isStorageUrl } from "../../core/storage/storage-url.ts";
import type { PartSum } from "../../core/store/content.ts";
import { sealedSource } from "../../core/store/encryption/renamed-contents.ts";
import { sealedPlace } from "../../core/store/encryption/sealed-place.ts";
import { FolderPlace } from "../../core/store/json/folder-place.ts";
import { type Moved, moveStore, type Place, undoMove } from "../../core/store/move.ts";
import { DatabasePlace } from "../../core/store/postgres/database-place.ts";
import { isPostgresUrl } from "../../core/store/postgres/postgres-options.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { renderTable } from "../table.ts";
import { databaseSchemaOf, dataFolderOf, readVariable } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { databasePlace, remoteOf, STORE_FLAGS, storagePlace } from "./with-remote.ts";

const place = (what: string) =>
  needed.text(
    `${what}: a folder, env:NAME for the URL in a variable, or the URL of a database without password or of a storage`,
    "place",
  );

const flags = v.object({
  to: place("where to"),
  from: v.optional(
    place(
      "where from (default: the data folder; if --to is a folder, the database or storage that the variables of the service name)",
    ),
  ),
  schema: STORE_FLAGS.schema,
  undo: option.flag("open the source of this move again"),
  force: option.flag("with --undo: discard what was stored since, or ignore a lost target"),
  json: option.flag("print JSON"),
});
type MoveFlags = v.InferOutput<typeof flags>;

/** `svc store move`: between a folder, a database and a storage. */
export const move = defineCommand({
  usage: "move",
  summary: "Move the data of a stopped service between its folder, a Postgres database and a bucket",
  flags,
  examples: [
    "svc store move --to env:SERVICE_DATABASE_URL",
    "svc store move --from env:SERVICE_DATABASE_URL --to data",
    "svc store move --to s3://my-bucket/agents?region=eu-central-1",
    "svc store move --to env:SERVICE_DATABASE_URL --undo",
  ],
  async run({ flags, context }) {
    const target = placeOf(flags.to, flags, context);
    const source = sourceOf(flags, target, context);
    const keys = encryptionKeysOf(context);
    const options = {
      ...{ source: sealedSource(source, keys), target: sealedPlace(target, keys) },
      ...{ newId: randomUUID, now: () => new Date() },
      report: (step: string) => context.note(`${step} …`),
    };
    if (flags.undo) {
      await undoMove({ ...options, force: flags.force });
      if (flags.json) context.print(JSON.stringify({ undone: true, data: source.name }, null, 2));
      else context.print(`Undone: the data is in ${source.name}`);
      return 0;
    }
    const moved = await moveStore(options);
    if (flags.json) context.print(toJson(moved, source, target));
    else tell(moved, { source, target, context });
    tellKeys(source, target, context);
    return 0;
  },
});

function sourceOf(flags: MoveFlags, target: Place, context: CliContext): Place {
  if (flags.from !== undefined) return placeOf(flags.from, flags, context);
  if (target instanceof FolderPlace) {
    const remote = remoteOf({ schema: flags.schema }, context);
    if (remote !== undefined) return remote;
    throw new UsageError(
      "Neither SERVICE_DATABASE_URL nor SERVICE_STORAGE_URL is set",
      "Name the place to move from: --from",
    );
  }
  // The variable may be set already: the command moves what a service had before.
  return new FolderPlace(dataFolderOf({ dataDir: context.env.SERVICE_DATA_DIR || "data" }, context));
}

/** A place as it is named in an argument. Its value is in no message: it may have a password. */
function placeOf(text: string, flags: MoveFlags, context: CliContext): Place {
  const schema = databaseSchemaOf(flags, context);
  if (text.startsWith("env:")) {
    const name = text.slice("env:".length);
    const url = readVariable(name, context);
    if (url === undefined) throw new UsageError(`The variable ${name} is not set`);
    if (isStorageUrl(url)) return storagePlace(url, context);
    if (!isPostgresUrl(url) || !URL.canParse(url))
      throw new UsageError(
        `The variable ${name} is neither the URL of a database, which begins with postgres:// or postgresql://, nor that of a storage`,
      );
    return databasePlace(url, schema, context);
  }
  if (isStorageUrl(text)) return storagePlace(text, context);
  if (!isPostgresUrl(text)) return new FolderPlace(resolve(context.cwd, text));
  if (!URL.canParse(text)) throw new UsageError("The URL of the database is not valid");
  const { password, searchParams } = new URL(text);
  if (password !== "" || searchParams.has("password")) {
    throw new UsageError(
      "The URL has a password, which other users of this machine can read in an argument",
      "Set it as a variable, and use env: and its name: --to env:SERVICE_DATABASE_URL",
    );
  }
  return databasePlace(text, schema, context);
}

interface Ends {
  readonly source: Place;
  readonly target: Place;
}

function toJson({ was, ...sums }: Moved, { name: from }: Place, { name: to }: Place): string {
  const [source, target] = [sums.source, sums.target].map((each) => each.filter(({ rows }) => rows > 0));
  return JSON.stringify({ moved: was, from, to, source, target }, null, 2);
}

function tell(moved: Moved, { source, target, context }: Ends & { context: CliContext }): void {
  if (moved.was === "done") {
    context.print(`The data of ${source.name} was moved to ${target.name} before; nothing was changed`);
    return;
  }
  context.print(renderSums(moved.source, moved.target, context));
  context.print(`Moved to ${target.name}; ${source.name} can no longer be opened`);
}

/** Both places have the same, or nothing would have been moved. */
export function renderSums(own: readonly PartSum[], theirs: readonly PartSum[], context: CliContext): string {
  const copies = new Map(theirs.map((sum) => [`${sum.isLog} ${sum.name}`, sum]));
  const rows = own
    .filter(({ rows }) => rows > 0)
    .map((sum) => {
      const copy = copies.get(`${sum.isLog} ${sum.name}`);
      return [
        sum.isLog ? `${sum.name} (log)` : sum.name,
        ...[String(sum.rows), String(copy?.rows ?? 0), sum.checksum, copy?.checksum ?? "-"],
      ];
    });
  const header = ["table", "source", "target", "checksum of the source", "checksum of the target"];
  return renderTable(header, rows, context.paint?.print);
}

/** A database or storage has no keys, and a new folder neither: a start would refuse, or make others. */
function tellKeys(source: Place, target: Place, context: CliContext): void {
  if (target instanceof FolderPlace) {
    context.note(
      "Start the service with the same SERVICE_API_KEY and SERVICE_RSA_PRIVATE_KEY as before, and without SERVICE_DATABASE_URL and SERVICE_STORAGE_URL. Without the RSA key, encrypted parameters cannot be read.",
    );
    return;
  }
  const folder = source instanceof FolderPlace ? source.folder : undefined;
  const [key, rsa] = ["api-key", "rsa-private-key.pem"].map((name) => folder && join(folder, name));
  const kept = [
    ...(key && existsSync(key) ? [`SERVICE_API_KEY="$(cat ${key})"`] : []),
    ...(rsa && existsSync(rsa) ? [`SERVICE_RSA_PRIVATE_KEY="$(cat ${rsa})"`] : []),
  ];
  const variable = target instanceof DatabasePlace ? "SERVICE_DATABASE_URL" : "SERVICE_STORAGE_URL";
  context.note(
    `Start the service with ${variable}, SERVICE_API_KEY and SERVICE_RSA_PRIVATE_KEY: the keys are not in the store, and each instance needs the same.`,
  );
  if (kept.length > 0) context.note(`This service has had: ${kept.join(" ")}`);
}
