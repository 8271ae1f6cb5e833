import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, existsSync, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { freePort } from "./free-port.ts";

/** Where Debian installs the programs of a server, beside the folders of PATH. */
const DEBIAN = "/usr/lib/postgresql";

/**
 * A Postgres of our own with its default settings and those given, such as `work_mem=8MB`, on loopback, with a password;
 * `undefined` if the machine has none.
 */
export async function beginPostgres(
  settings: readonly string[] = [],
): Promise<(AsyncDisposable & { readonly url: string; readonly pid: number }) | undefined> {
  const bin = findPrograms();
  if (bin === undefined) return undefined;
  const dir = await mkdtemp(join(tmpdir(), "bench-postgres-"));
  const owner = ordinaryUser();
  const password = randomBytes(12).toString("hex");
  const [data, secret] = [join(dir, "data"), join(dir, "password")];
  await writeFile(secret, password, { mode: 0o600 });
  if (owner) for (const path of [dir, secret]) chownSync(path, owner.uid, owner.gid);
  const how = { ...owner, cwd: dir, env: { ...process.env, HOME: dir } };
  const cluster = ["-D", data, "-U", "bench", "-A", "scram-sha-256", `--pwfile=${secret}`, "--no-locale"];
  execFileSync(join(bin, "initdb"), [...cluster, "-E", "UTF8"], {
    ...how,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const port = await freePort();
  const address = ["-h", "127.0.0.1", "-p", String(port), "-k", dir];
  const given = settings.flatMap((setting) => ["-c", setting]);
  const child = spawn(join(bin, "postgres"), ["-D", data, ...address, ...given], {
    ...how,
    stdio: ["ignore", "ignore", "pipe"],
  });
  for await (const text of child.stderr.setEncoding("utf8"))
    if (String(text).includes("ready to accept connections")) break;
  child.stderr.resume();
  return {
    url: `postgresql://bench:${password}@127.0.0.1:${port}/postgres`,
    pid: child.pid!,
    async [Symbol.asyncDispose]() {
      const gone = once(child, "exit");
      // Does not wait for clients.
      child.kill("SIGINT");
      await gone;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function findPrograms(): string | undefined {
  const debian = existsSync(DEBIAN) ? readdirSync(DEBIAN).toSorted((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...(process.env.PATH ?? "").split(delimiter),
    ...debian.map((version) => join(DEBIAN, version, "bin")),
  ];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

/** Postgres refuses to run as root. */
function ordinaryUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync("id", [flag, "nobody"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}
