import { execFileSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

/** Addresses of this machine alone, so that the usual port is free. */
const random = () => 2 + Math.floor(Math.random() * 250);
const [HOST, OTHER] = [`127.${random()}.${random()}.1`, `127.${random()}.${random()}.2`] as const;

/** A server that is reached by TLS, and a folder with its certificate and that of somebody else. */
async function startServer() {
  const folder = mkdtempSync(join(tmpdir(), "svc-tls-"));
  const make = (name: string) =>
    execFileSync(
      "openssl",
      [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
        ...["-subj", `/CN=${name}`, "-addext", `subjectAltName=IP:${HOST}`],
        ...["-keyout", join(folder, `${name}.key`), "-out", join(folder, `${name}.crt`)],
      ],
      { stdio: "ignore" },
    );
  make("server");
  make("other");
  const cluster = new Cluster({ settings: [`listen_addresses=${HOST},${OTHER}`] });
  onTestFinished(async () => {
    await cluster.close();
    rmSync(folder, { recursive: true });
  });
  await cluster.prepare();
  const data = join(cluster.folder, "data");
  const { uid, gid } = statSync(data);
  for (const kind of ["crt", "key"]) {
    copyFileSync(join(folder, `server.${kind}`), join(data, `server.${kind}`));
    execFileSync("chown", [`${uid}:${gid}`, join(data, `server.${kind}`)]);
    execFileSync("chmod", ["600", join(data, `server.${kind}`)]);
  }
  await cluster.start();
  const setTls = async (to: "on" | "off") => {
    await cluster.query(`alter system set ssl = ${to}`);
    await cluster.query("select pg_reload_conf()");
    const now = async () => (await cluster.query<{ ssl: string }>("show ssl"))[0]!.ssl;
    await expect.poll(now).toBe(to);
  };
  const log = { info() {}, warn() {}, error() {} };
  const open = async (host: string, ca: string | undefined, mode = "verify-full") => {
    const root = ca === undefined ? "" : `&sslrootcert=${join(folder, `${ca}.crt`)}`;
    const url = `postgres://svc@${host}/postgres?sslmode=${mode}${root}`;
    const store = await postgres({ url })({ tables: CORE_TABLES, dataDir: "", log });
    onTestFinished(() => store.close());
    return store;
  };
  return { cluster, setTls, open };
}

const CONNECTIONS = `select s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid)
  where a.application_name = 'agent-control-service'`;

requirement("postgres", "linux").it(
  "with sslmode=verify-full every connection is encrypted, and none is made to a server that cannot prove who it is",
  async () => {
    const { cluster, setTls, open } = await startServer();

    await expect(open(HOST, "server")).rejects.toThrow(/does not support SSL/);
    await setTls("on");
    await expect(open(HOST, "other")).rejects.toThrow(/certificate/);
    await expect(open(OTHER, "server")).rejects.toThrow(/does not match certificate/);
    expect(await cluster.query(CONNECTIONS)).toEqual([]);
    await expect(open(HOST, undefined)).rejects.toMatchObject({
      detail: expect.stringMatching(/sslrootcert=.*NODE_EXTRA_CA_CERTS/),
    });
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    await expect(open(HOST, "other", "require")).rejects.toThrow(/certificate/);
    const store = await open(HOST, "server");
    await store.table("Job").insert(makeJob("a"));
    await store.table("Job").list();

    expect(warnings).toEqual([]);
    expect(await cluster.query(CONNECTIONS)).not.toContainEqual({ ssl: false });
    // One reads, one writes, one listens; those that make indexes have ended.
    const known = () => cluster.query(CONNECTIONS);
    const reading = async () => {
      // The one that reads ends where nothing is read.
      await store.table("Job").list();
      return known();
    };
    await expect.poll(reading).toEqual([{ ssl: true }, { ssl: true }, { ssl: true }]);
    // A server that has lost its certificate gets no plain text.
    await setTls("off");
    const ended = async () => {
      const left = await known();
      // A connection from before the change may end later; it is encrypted.
      expect(left).not.toContainEqual({ ssl: false });
      await cluster.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'agent-control-service'",
      );
      return left;
    };
    await expect.poll(ended).toEqual([]);
    await expect.poll(() => store.table("Job").get("a").catch(String)).toMatch(/does not support SSL/);
    expect(await known()).toEqual([]);
  },
);
