// @long
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, createServer as createSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sharedCluster } from "../_postgres.ts";
import { findFaketime, requirement } from "../_require.ts";
import { REPOSITORY } from "../cli/_svc.ts";
import { startS3 } from "../storage/s3-server.ts";
import { RUN_BY_DEPLOYMENTS } from "./_deploy-lines.ts";
import { DESK } from "./_desk.ts";
import { ELSEWHERE, VARIABLES_ELSEWHERE } from "./_elsewhere.ts";
import { Machine } from "./_machine.ts";
import { servePackages } from "./_registry.ts";
import { RUN, scenario } from "./_scenario.ts";
import { readPage, shownCommands, shownVariables } from "./_shown.ts";
import type { Terminal } from "./_terminal.ts";

const REGISTRY = "http://127.0.0.1:4873";
const S3_KEY = { id: "AKIDOFTHEDOCS", secret: "secret-of-the-docs" };
/** Of the packages, what a service needs; who installs them and what npm prints is not the subject. */
const NPM = {
  ...{ npm_config_registry: REGISTRY, npm_config_omit: "dev", npm_config_ignore_scripts: "true" },
  ...{ npm_config_audit: "false", npm_config_fund: "false", npm_config_update_notifier: "false" },
  npm_config_progress: "false",
};

const { met } = requirement("namespaces");
const withPostgres = requirement("namespaces", "postgres");
const closers: (() => unknown)[] = [];
/** Paths that an OTLP receiver was sent something at. */
const received: string[] = [];
let machine: Machine;

beforeAll(async () => {
  if (!met) return;
  const sockets = mkdtempSync(join(tmpdir(), "sockets-"));
  closers.push(() => rmSync(sockets, { recursive: true, force: true }));
  const packages = await servePackages(join(sockets, "packages"), REGISTRY);
  const s3 = await startS3(["agents-backup", "my-bucket"], { key: S3_KEY, region: "eu-central-1" });
  const bridge = createSocket((socket) => {
    const other = connect(Number(new URL(s3.url).port), "127.0.0.1");
    socket.pipe(other).pipe(socket);
    socket.on("error", () => other.destroy());
    other.on("error", () => socket.destroy());
  }).listen(join(sockets, "s3"));
  const telemetry = createServer((request, response) => {
    received.push(request.url ?? "");
    request.resume().on("end", () => response.end("{}"));
  }).listen(join(sockets, "telemetry"));
  const database = withPostgres.met ? await sharedCluster() : undefined;
  if (database) {
    await database.query(`create role "user" login superuser`);
    await database.query(`create database agents owner "user"`);
  }
  closers.push(
    () => packages.close(),
    () => bridge.close(),
    () => telemetry.close(),
    () => s3.close(),
  );
  machine = await Machine.start(NPM, {
    hosts: { "agents.example.com": { port: 8000 }, "control.example.com": { port: 8100 } },
    ports: {
      4873: { path: join(sockets, "packages") },
      4318: { path: join(sockets, "telemetry") },
      9000: { path: join(sockets, "s3") },
      5432: { path: join(database?.folder ?? sockets, ".s.PGSQL.5432") },
    },
  });
});
afterAll(async () => {
  await machine?.close();
  for (const close of closers) await close();
});

/** Starts a service in a terminal, and waits until it serves. */
async function serve(terminal: Terminal, line: string): Promise<void> {
  terminal.start(line);
  await terminal.sees(/Press Ctrl-C to stop/);
}

/** Runs a command line that must succeed; resolves with what it printed. */
async function done(terminal: Terminal, line: string): Promise<string> {
  const { code, output } = await terminal.run(line);
  expect(code, `${line}\n${output}`).toBe(0);
  return output;
}

scenario(
  "a first project is made, served while it is edited, and runs a job",
  ["namespaces"],
  {
    init: "npx agent-control-service init my-service",
    dev: "cd my-service && npm install && npx svc dev",
    enter: "cd my-service && npm install",
    devAlone: "npx svc dev",
    start: "npx svc job start word-counter --wait",
  },
  async (run) => {
    const first = await machine.terminal("new");
    first.start(run.init);
    await first.sees(/Ok to proceed/);
    first.type("y\n");
    await first.sees(/Name of the first agent/);
    first.type("\r");
    expect(await first.finished()).toMatchObject({
      code: 0,
      output: expect.stringContaining("Project created"),
    });
    await serve(first, run.dev);
    const second = await machine.terminal("new/my-service");
    second.start(run.start);
    await second.sees(/Keep "/);
    second.type("y\r");
    expect(await second.finished()).toMatchObject({ code: 0, output: expect.stringMatching(/completed/) });
    await first.interrupt();
    await done(first, `cd .. && ${run.enter}`);
    await serve(first, run.devAlone);
    await first.interrupt();
  },
);

scenario(
  "the agent of the readme asks at the terminal and over HTTP",
  ["namespaces"],
  {
    install: "npm install agent-control-service valibot ai@6 @ai-sdk/openai-compatible@2",
    start: "npx svc start",
    job: "npx svc job start reply-desk --wait",
    startHttp: `curl http://127.0.0.1:8000/agents/reply-desk/jobs -H "X-API-Key: $(cat data/api-key)" -H "Content-Type: application/json" \\
  -d '{ "job_context": { "job_id": "monday" }, "job_fields": { "mails": ["Where is order 12?"] } }'`,
    cases: `curl http://127.0.0.1:8000/jobs/monday/cases -H "X-API-Key: $(cat data/api-key)"`,
    answer: `curl http://127.0.0.1:8000/jobs/monday/cases/mail-1/update -H "X-API-Key: $(cat data/api-key)" -H "Content-Type: application/json" \\
  -d '{ "answer": { "send": true } }'`,
  },
  async (run) => {
    const first = await machine.terminal("desk");
    writeFileSync(machine.at("desk/package.json"), '{ "private": true, "type": "module" }');
    await done(first, run.install);
    mkdirSync(machine.at("desk/src"));
    const [, controller = ""] = /```ts\n(\/\/ src\/controller\.ts\n[\s\S]*?)```/.exec(readPage("README.md"))!;
    writeFileSync(machine.at("desk/src/controller.ts"), controller);
    await serve(first, run.start);
    const second = await machine.terminal("desk");
    second.start(run.job);
    await second.sees(/Send this/);
    second.type("y\r");
    await second.sees(/order 34[\s\S]*send/);
    second.type("y\r");
    expect(await second.finished()).toMatchObject({
      code: 0,
      output: expect.stringContaining("Mails handled: 2"),
    });

    expect(await done(second, run.startHttp)).toContain('"monday"');
    await expect.poll(async () => (await second.run(run.cases)).output).toContain('"awaiting"');
    expect(await done(second, run.answer)).not.toContain("error");
    await expect.poll(async () => (await second.run(run.cases)).output).toContain('"completed"');
    await first.interrupt();
  },
);

/** A project in which the package is installed as in the one of the readme, with these files. */
function projectAt(folder: string, files: Readonly<Record<string, string>>): void {
  const at = (name: string) => machine.at(join(folder, name));
  mkdirSync(at("src"), { recursive: true });
  if (!existsSync(at("node_modules"))) {
    cpSync(machine.at("desk/node_modules"), at("node_modules"), { recursive: true, verbatimSymlinks: true });
    cpSync(machine.at("desk/package.json"), at("package.json"));
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(at(name), text);
}

scenario(
  "jobs are started, answered, listed, forked, pulled and replayed",
  ["namespaces"],
  {
    serve: "npx svc start",
    audit:
      "npx svc job start invoice-audit --field folder=/srv/invoices --field factor=5 --max-cost 2 --wait",
    token: [
      "ERP_TOKEN=… npx svc job start invoice-auditor --param ERP_TOKEN --field folder=/srv/invoices",
      { "…": "a-token" },
    ],
    answer: `npx svc job answer job-1f9c2a77 sw-77121098 --field approved=no --field comment="ask them first"`,
    list: "npx svc job list --status awaiting --json",
    show: "npx svc job show job-1f9c2a77 --calls",
    fork: "npx svc job fork job-1f9c2a77 --from step:pay",
    forkAnswer: "npx svc job fork job-1f9c2a77 --from sw-77121098/ask:approve --set factor=5 --wait",
    chat: `curl -N http://127.0.0.1:8000/agents/assistant/chat -H "X-API-Key: $(cat data/api-key)" \\
  -H "Content-Type: application/json" -d '{ "params": { "message": "What do you bake?" } }'`,
    custom: `curl http://127.0.0.1:8000/agents/assistant/custom/count_words -H "X-API-Key: $(cat data/api-key)" \\
  -H "Content-Type: application/json" -d '{ "job_fields": { "text": "rye and wheat" } }'`,
    key: "KEY=$(cat data/api-key)",
    agents: `curl http://127.0.0.1:8000/agents -H "X-API-Key: $KEY"`,
    hello: `curl http://127.0.0.1:8000/agents/hello/jobs -H "X-API-Key: $KEY" -H "Content-Type: application/json" \\
  -d '{ "job_context": { "job_id": "job-1" }, "job_fields": { "names": "Ada, Grace" } }'`,
    stream: `curl -N http://127.0.0.1:8000/jobs/job-1/stream -H "X-API-Key: $KEY"`,
    link: `curl -X POST "$SERVICE/admin/api/cases/order-7/links" -H "X-API-Key: $KEY" \\
  -H "content-type: application/json" -d '{ "name": "Mira", "expires_in": "3d" }'`,
    schedules: `curl http://127.0.0.1:8000/schedules -H "X-API-Key: $(cat data/api-key)"`,
    auditList: "npx svc audit list --action job.delete --since 2026-01-31",
    auditExport: "npx svc audit export > audit.jsonl",
    auditVerify: "npx svc audit verify",
    auditFolder: "npx svc audit export --data-dir data > audit.jsonl",
    backup: "npx svc store backup backups/monday",
    backupUrl: "npx svc store backup backups/monday --url https://agents.example.com",
    restore: "npx svc store restore backups/monday --data-dir /var/lib/agents",
    export: "npx svc store export exported",
    jobs: `jq -c 'select(.t=="Job").d' data/*.jsonl`,
    run: `jq -c 'select(.t=="Run" and .id=="job-1").d' data/*.jsonl`,
    caseHistory: `jq -c 'select(.t=="CaseUpdate" and .id=="case-1").d' data/*.jsonl`,
    exportKey: ["export SERVICE_API_KEY=…", { "…": "$(cat ../office/data/api-key)" }],
    pull: "npx svc job pull https://agents.example.com job-1f9c2a77",
    replay: "npx svc job replay job-1f9c2a77",
    inspect: "node --inspect-brk node_modules/agent-control-service/dist/cli.js job replay job-1f9c2a77",
  },
  async (run) => {
    projectAt("office", { "src/controller.ts": DESK });
    for (const name of ["assistant", "hello"])
      cpSync(join(REPOSITORY, "examples", name), machine.at(`office/src/${name}`), { recursive: true });
    const first = await machine.terminal("office");
    await done(first, "mkdir /srv/invoices && touch /srv/invoices/one /srv/invoices/two");
    await serve(first, run.serve);
    const at = await machine.terminal("office");

    expect(await done(at, run.audit)).toContain("completed: paid 2");
    expect(await done(at, run.token)).toContain("started");
    await done(at, "npx svc job start invoice-audit --field folder=/srv/invoices --id job-1f9c2a77");
    await expect.poll(async () => (await at.run(run.list)).output).toContain("job-1f9c2a77");
    await done(at, run.answer);
    await expect.poll(async () => (await at.run(run.show)).output).toMatch(/completed[\s\S]*pay/);
    expect(await done(at, run.fork)).toMatch(/job-/);
    expect(await done(at, run.forkAnswer)).toContain("paid 2");

    expect(await done(at, run.chat)).toContain('"content":"bake?');
    expect(await done(at, run.custom)).toContain('"words":3');
    await done(at, run.key);
    expect(await done(at, run.agents)).toContain('"slug":"hello"');
    expect(await done(at, run.hello)).toContain('"job-1"');
    expect(await done(at, run.stream)).toContain("event: end");
    await done(at, "SERVICE=http://127.0.0.1:8000; npx svc job start orders");
    await expect.poll(async () => (await at.run(run.link)).output).toContain("/answer");
    expect(await done(at, run.schedules)).toContain('"nightly"');

    await done(at, "npx svc job delete job-1 --yes");
    expect(await done(at, run.auditList)).toContain("job.delete");
    await done(at, run.auditExport);
    expect(await done(at, "wc -l < audit.jsonl")).not.toMatch(/^0$/m);
    await done(at, run.auditVerify);
    await done(at, "npx svc job restore job-1");
    await done(at, run.backup);

    projectAt("laptop", {
      "src/controller.ts": readFileSync(machine.at("office/src/controller.ts"), "utf8"),
    });
    cpSync(machine.at("office/src"), machine.at("laptop/src"), { recursive: true });
    const laptop = await machine.terminal("laptop");
    await done(laptop, run.exportKey);
    await done(laptop, run.pull);
    expect(await done(laptop, run.replay)).toContain("job-1f9c2a77");
    laptop.start(run.inspect);
    await laptop.sees(/Debugger listening/);
    await laptop.interrupt();
    await done(laptop, run.backupUrl);
    expect(existsSync(machine.at("laptop/backups/monday/INCOMPLETE"))).toBe(false);
    await done(laptop, run.restore);
    expect(await done(laptop, "ls /var/lib/agents")).toContain("jsonl");
    await first.interrupt();

    await done(at, run.auditFolder);
    expect(await done(at, "grep -c job.delete audit.jsonl")).toMatch(/[1-9]/);
    expect(await done(at, run.jobs)).toContain("invoice-audit");
    expect(await done(at, run.run)).not.toBe("");
    await done(at, run.caseHistory);
    await done(at, run.export);
    expect(await done(at, "ls exported")).toContain("Job.json");
  },
);

const CHAT = `
import { createServer, defineChat } from "agent-control-service";

const assistant = defineChat({
  name: "Assistant",
  version: "1.0.0",
  reply: ({ message, messages, turn }) => turn.step("model", () => \`\${messages.length}: \${message}\`),
});

export default createServer({ agents: [assistant] });
`;

scenario(
  "a chat is held at the terminal, and a thread continues",
  ["namespaces"],
  {
    serve: "npx svc start",
    chat: "npx svc chat assistant",
    thread: `npx svc chat assistant --thread job-1f9c2a77 --message "What is still open?"`,
  },
  async (run) => {
    projectAt("chat", { "src/controller.ts": CHAT });
    const first = await machine.terminal("chat");
    await serve(first, run.serve);
    const at = await machine.terminal("chat");
    at.start(run.chat);
    await at.sees(/> /);
    at.type("Hello\r");
    await at.sees(/1: Hello/);
    await at.interrupt();
    await done(at, "npx svc job start assistant --id job-1f9c2a77");
    expect(await done(at, run.thread)).toContain("1: What is still open?");
    await first.interrupt();
  },
);

scenario(
  "events reach a control system, and telemetry a collector",
  ["namespaces"],
  {
    url: "export SERVICE_ACCOUNT_API_URL=https://control.example.com",
    workspace: "export SERVICE_ACCOUNT_WORKSPACE_ID=my-workspace",
    key: ["export SERVICE_ACCOUNT_API_KEY=…", { "…": "a-key-of-the-control-system" }],
    serve: "npx svc start",
    together: "npx svc start --control",
    alone: "npx svc control",
    install: `npm install @opentelemetry/api @opentelemetry/resources @opentelemetry/sdk-trace-base @opentelemetry/sdk-metrics \\
  @opentelemetry/exporter-trace-otlp-http @opentelemetry/exporter-metrics-otlp-http`,
    endpoint: "export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
  },
  async (run) => {
    projectAt("chat", { "src/controller.ts": CHAT });
    const first = await machine.terminal("chat");
    const control = await machine.terminal("chat");
    await serve(first, run.together);
    expect(await first.sees(/server\.register/)).not.toBeNull();
    await first.interrupt();

    control.start(run.alone);
    await control.sees(/SERVICE_ACCOUNT_API_URL/);
    await control.interrupt();
    await done(control, run.key);
    control.start(`${run.alone} --workspace my-workspace`);
    await control.sees(/SERVICE_ACCOUNT_API_URL/);
    for (const line of [run.url, run.workspace, run.key]) await done(first, line);
    await done(first, run.install);
    await done(first, run.endpoint);
    await serve(first, run.serve);
    await control.sees(/server\.register/);
    const at = await machine.terminal("chat");
    await done(at, `npx svc chat assistant --message "Hello"`);
    await first.interrupt();
    await control.interrupt();
    expect(new Set(received)).toEqual(new Set(["/v1/traces", "/v1/metrics"]));
  },
);

const PAYER = `
import { createServer, defineAgent } from "agent-control-service";

const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.step("pay", () => "paid") } },
});

export default createServer({ agents: [payer] });
`;

scenario(
  "a store moves to a database and back, and several processes share it",
  ["namespaces", "postgres"],
  {
    install: "npm install pg",
    url: "export SERVICE_DATABASE_URL=postgres://user:password@localhost:5432/agents",
    move: "svc store move --to env:SERVICE_DATABASE_URL",
    keys: `export SERVICE_API_KEY="$(cat data/api-key)" SERVICE_RSA_PRIVATE_KEY="$(cat data/rsa-private-key.pem)"`,
    serve: "npx svc start",
    back: "svc store move --from env:SERVICE_DATABASE_URL --to data",
    inLine: "SERVICE_DATABASE_URL=postgres://user:password@db.example.com:5432/agents npx svc start",
    key: "export SERVICE_API_KEY=$(openssl rand -base64 32)",
    rsa: `export SERVICE_RSA_PRIVATE_KEY="$(openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048)"`,
    several: "npx svc start --instances 3",
  },
  async (run) => {
    projectAt("house", { "src/controller.ts": PAYER });
    const first = await machine.terminal("house");
    await done(first, run.install);
    await serve(first, run.serve);
    const at = await machine.terminal("house");
    expect(await done(at, "npx svc job start payer --id kept --wait")).toContain("completed");
    await first.interrupt();

    await done(first, "PATH=$PWD/node_modules/.bin:$PATH");
    await done(first, run.url);
    await done(first, run.move);
    await done(first, run.keys);
    await serve(first, run.serve);
    expect(await done(at, "npx svc job show kept")).toContain("completed");
    await first.interrupt();
    await done(first, "mv data moved");
    await done(first, run.back);
    await done(first, "ls data | grep jsonl");

    const database = await sharedCluster();
    await database.query("drop database agents with (force)");
    await database.query(`create database agents owner "user"`);
    const second = await machine.terminal("house");
    for (const line of [run.key, run.rsa]) await done(second, line);
    await serve(second, run.inLine);
    await second.interrupt();
    await done(second, run.url);
    second.start(run.several);
    await second.sees(/(?:an instance has started[\s\S]*){3}/);
    await second.interrupt();
  },
);

scenario(
  "a store is shipped to a bucket, restored from it, moved to one, and served from it",
  ["namespaces"],
  {
    credentials: [
      "export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…",
      { "ID=…": `ID=${S3_KEY.id}`, "KEY=…": `KEY=${S3_KEY.secret}` },
    ],
    backup: `npx svc store backup --to "s3://agents-backup/production?region=eu-central-1"`,
    list: `npx svc store restore --from "s3://agents-backup/production?region=eu-central-1" --list`,
    dryRun: `npx svc store restore --from "s3://agents-backup/production?region=eu-central-1" --dry-run`,
    at: [
      `npx svc store restore --from "s3://agents-backup/production?region=eu-central-1" --at 2026-03-01T09:30:00Z`,
      { "2026-03-01T09:30:00Z": "$(date -u +%FT%TZ)" },
    ],
    move: `svc store move --to "s3://my-bucket/agents?region=eu-central-1"`,
    storage: `export SERVICE_STORAGE_URL="s3://my-bucket/agents?region=eu-central-1"`,
    keys: [
      "export SERVICE_API_KEY=… SERVICE_RSA_PRIVATE_KEY=…",
      {
        "API_KEY=…": `API_KEY="$(cat data/api-key)"`,
        "PRIVATE_KEY=…": `PRIVATE_KEY="$(cat data/rsa-private-key.pem)"`,
      },
    ],
    serve: "npx svc start",
  },
  async (run) => {
    projectAt("shop", { "src/controller.ts": PAYER });
    const first = await machine.terminal("shop", { AWS_ENDPOINT_URL_S3: "http://127.0.0.1:9000" });
    await serve(first, run.serve);
    const at = await machine.terminal("shop", { AWS_ENDPOINT_URL_S3: "http://127.0.0.1:9000" });
    expect(await done(at, "npx svc job start payer --id kept --wait")).toContain("completed");
    await done(at, run.credentials);
    await done(at, run.backup);
    expect(await done(at, run.list)).toMatch(/\d{8}T\d+Z-/);
    expect(await done(at, run.dryRun)).toMatch(/Job/);
    await first.interrupt();
    await done(first, run.credentials);
    await done(first, "cp -r data copy");
    await done(first, "PATH=$PWD/node_modules/.bin:$PATH");
    await done(first, run.move);
    await done(first, run.keys);
    await done(first, "mv data moved");
    await done(at, run.at);
    await done(at, "ls data | grep jsonl && rm -rf data");
    await done(first, run.storage);
    await serve(first, run.serve);
    expect(await done(at, `SERVICE_API_KEY="$(cat moved/api-key)" npx svc job show kept`)).toContain(
      "completed",
    );
    await first.interrupt();
  },
);

scenario(
  "a service is killed at random moments until Ctrl-C ends that",
  ["namespaces"],
  { torture: "npx svc torture src/controller.ts --rounds 100" },
  async (run) => {
    projectAt("tough", { "src/controller.ts": PAYER });
    const at = await machine.terminal("tough");
    at.start(run.torture);
    // A hundred rounds take minutes: test/runs/torture.test.ts runs to an end.
    await at.sees(/\d+ of 100 rounds/);
    await at.interrupt();
  },
);

scenario(
  "a service trusts the proxies that a variable names",
  ["namespaces"],
  {
    one: "SERVICE_TRUST_PROXY=1",
    two: "SERVICE_TRUST_PROXY=2",
    networks: "SERVICE_TRUST_PROXY=10.0.0.0/8,192.0.2.7",
    serve: "npx svc start",
  },
  async (run) => {
    projectAt("ship", { "src/controller.ts": PAYER });
    const at = await machine.terminal("ship", { CI: "1" });
    // As a file of variables has them, which a process manager reads.
    await done(at, "set -a");
    for (const [line, said] of [
      [run.one, "the nearest one"],
      [run.two, "the nearest 2"],
      [run.networks, "10.0.0.0/8"],
    ] as const) {
      await done(at, line);
      at.start(run.serve);
      await at.sees(new RegExp(`proxies +[^\\n]*(?:${said})`));
      await at.interrupt();
    }
  },
);

/** Variables with a value of the pages' kind, and how the server page of the admin interface shows it. */
const SETTINGS: Readonly<Record<string, readonly [value: string, shown: string]>> = {
  SERVICE_HOST: ["127.0.0.2", "127.0.0.2"],
  SERVICE_PORT: ["8080", "8080"],
  SERVICE_PUBLIC_URL: ["https://agents.example.com", "https://agents.example.com"],
  SERVICE_API_PREFIX: ["/supervaizer", "/supervaizer"],
  SERVICE_ENVIRONMENT: ["staging", "staging"],
  SERVICE_DATA_DIR: ["elsewhere", "/elsewhere"],
  SERVICE_ENVELOPES: ["v2", "v2"],
  SERVICE_LOG_LEVEL: ["debug", "debug"],
  SERVICE_LOG_FORMAT: ["json", "json"],
  SERVICE_MAX_CONCURRENT_JOBS: ["7", "7"],
  SERVICE_MAX_STREAMS: ["123", "123"],
  SERVICE_PAUSED: ["true", "true|yes"],
};
scenario(
  "the service reads each variable of its settings",
  ["namespaces"],
  { serve: "npx svc start" },
  async (run) => {
    projectAt("settings", { "src/controller.ts": PAYER });
    const values = Object.entries(SETTINGS).map(([name, [value]]) => [name, value]);
    const first = await machine.terminal("settings", {
      ...Object.fromEntries(values),
      SERVICE_PREVIOUS_API_KEY: "a-former-key-of-the-docs",
      SERVICE_SECRETS_DIR: machine.at("secrets"),
    });
    await done(first, "mkdir ../secrets && echo a-key-that-is-mounted-0123 > ../secrets/SERVICE_API_KEY");
    await serve(first, run.serve);
    const at = await machine.terminal("settings", { SERVICE_URL: "http://127.0.0.2:8080/supervaizer" });
    for (const key of ["a-former-key-of-the-docs", "a-key-that-is-mounted-0123"])
      expect(
        await done(at, `curl -s -o /dev/null -w '%{http_code}' -H 'X-API-Key: ${key}' $SERVICE_URL/agents`),
      ).toBe("200");
    const page = await done(
      at,
      "curl -s -H 'X-API-Key: a-former-key-of-the-docs' http://127.0.0.2:8080/admin/server",
    );
    const shown = (name: string) =>
      new RegExp(
        `>${name
          .replace("SERVICE_", "")
          .toLowerCase()
          .replace(/_(\w)/g, (_, c) => c.toUpperCase())}<[\\s\\S]{0,300}?(?:${SETTINGS[name]![1]})<`,
        "i",
      );
    expect(Object.keys(SETTINGS).filter((name) => !shown(name).test(page))).toEqual([]);
    await first.interrupt();
  },
);

/** Each job does what its field says. Each call of the handler, which happens once in each stay in memory, leaves a line. */
const DOER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";

const ways = {
  complete: () => {},
  fail: () => { throw new Error("as it was asked to"); },
  sleep: (job) => job.sleep("9s"),
  wait: (job) => job.waitFor("never"),
  nest: (job) => job.step("outer", async () => {
    await new Promise((resolve) => setTimeout(resolve));
    await job.step("inner", () => {});
  }),
};
const doer = defineAgent({
  name: "Doer",
  version: "1.0.0",
  methods: { job_start: {
    fields: [{ name: "what" }],
    run: ({ job, fields }) => {
      appendFileSync("calls.log", fields.what + "\\n");
      return ways[fields.what](job);
    },
  } },
});

export default createServer({ agents: [doer] });
`;

/** Variables whose effect is seen in what the service does, with the values that show it. */
const EFFECTS = {
  ...{ SERVICE_ALLOWED_ORIGINS: "https://app.example.com", SERVICE_SUSPEND_AFTER: "1s" },
  ...{ SERVICE_AUDIT_RETENTION: "1d", SERVICE_EVENT_RETENTION: "1s", SERVICE_DELETED_RETENTION: "0" },
  SERVICE_STRICT_STEPS: "true",
  ...{ SERVICE_BACKUP_EVERY: "1s", SERVICE_BACKUP_KEEP: "1d", SERVICE_BACKUP_URL: "file://$PWD/backups" },
  ...{ SERVICE_STORAGE_URL: "file://$PWD/bucket", SERVICE_DURABILITY: "disk" },
};

scenario(
  "the service does what variables say about origins, memory, times, backups, and what is acknowledged",
  ["namespaces", "faketime"],
  { serve: "npx svc start" },
  async (run) => {
    projectAt("effects", { "src/controller.ts": DOER });
    const first = await machine.terminal("effects");
    const at = await machine.terminal("effects");
    const start = (what: string) => `npx svc job start doer --id ${what} --field what=${what}`;
    const set = (...names: (keyof typeof EFFECTS)[]) =>
      names.map((name) => `${name}="${EFFECTS[name]}" `).join("");
    const minutesAgo = (minutes: number) => `LD_PRELOAD=${findFaketime()} FAKETIME=-${minutes}m `;
    // Late on the day before yesterday: the audit log keeps whole days.
    const midnight = new Date().setUTCHours(0, 0, 0, 0);
    const away = 24 * 60 + Math.ceil((Date.now() - midnight) / 60_000) + 5;
    const backups = async () =>
      (await done(at, "ls -1 backups/svc-backup")).split(/\s+/).filter((name) => /^\d/.test(name));

    await serve(first, minutesAgo(away) + set("SERVICE_BACKUP_URL", "SERVICE_BACKUP_EVERY") + run.serve);
    await expect.poll(async () => (await backups()).length).toBeGreaterThan(6);
    await done(at, `${start("complete")} --wait`);
    await done(at, "npx svc job delete complete --yes");
    await first.interrupt();
    // The newest of a day is kept, unless it is older than what `SERVICE_BACKUP_KEEP` says.
    const newest = (await backups()).at(-1);
    // A clock that is a day ahead of what is stored would be distrusted.
    await serve(first, minutesAgo(Math.floor(away / 2)) + run.serve);
    await done(at, "npx svc job restore complete");
    expect(await done(at, "npx svc audit list --action job.delete")).toContain("complete");
    const { SERVICE_STORAGE_URL: _, SERVICE_DURABILITY: _too, ...others } = EFFECTS;
    await first.interrupt();
    await serve(first, set(...(Object.keys(others) as (keyof typeof others)[])) + run.serve);

    await expect.poll(backups).not.toContain(newest);
    await expect.poll(() => done(at, "npx svc audit list --action job.delete")).not.toContain("complete");
    const key = `-H "X-API-Key: $(cat data/api-key)"`;
    const post = `curl -s ${key} -H "Content-Type: application/json" -d '{"data":{}}'`;
    expect(await done(at, `${post} http://127.0.0.1:8000/events/paid`)).toContain('"paid"');
    await expect.poll(() => done(at, `curl -s ${key} http://127.0.0.1:8000/events`)).not.toContain("paid");
    const asked = `curl -si http://127.0.0.1:8000/jobs/complete -H "Origin: ${EFFECTS.SERVICE_ALLOWED_ORIGINS}"`;
    expect(await done(at, asked)).toMatch(/access-control-allow-origin: https:\/\/app\.example\.com/i);
    await done(at, "npx svc job delete complete --yes");
    expect((await at.run("npx svc job restore complete")).code).toBe(1);
    expect((await at.run(`${start("nest")} --wait`)).output).toContain(`is called inside step "outer"`);
    expect(await done(at, `${start("sleep")} --wait`)).toContain("completed");
    expect(await done(at, "grep -c sleep calls.log")).toMatch(/^2$/m);
    await first.interrupt();

    // Only what is acknowledged before it is in the bucket has a lag.
    const keys = `SERVICE_API_KEY="$(cat data/api-key)" SERVICE_RSA_PRIVATE_KEY="$(cat data/rsa-private-key.pem)" `;
    await serve(first, keys + set("SERVICE_STORAGE_URL", "SERVICE_DURABILITY") + run.serve);
    expect(await done(at, `curl -s ${key} http://127.0.0.1:8000/.well-known/health`)).toContain(
      '"storage":{"lag"',
    );
    await first.interrupt();
  },
);

scenario(
  "the service removes ended jobs after the time that the variable of their status says",
  ["namespaces"],
  { serve: "npx svc start" },
  async (run) => {
    projectAt("removed", { "src/controller.ts": DOER });
    const first = await machine.terminal("removed");
    const at = await machine.terminal("removed");
    const show = async (id: string) => (await at.run(`npx svc job show ${id} --json`)).output;
    for (const [id, what, variable] of [
      ["completed", "complete", "SERVICE_RETENTION_COMPLETED"],
      ["failed", "fail", "SERVICE_RETENTION_FAILED"],
      ["cancelled", "wait", "SERVICE_RETENTION_CANCELLED"],
    ]) {
      await serve(first, `${variable}=1s ${run.serve}`);
      for (const how of ["complete", "fail", "wait"])
        await done(at, `npx svc job start doer --id ${how}-in-${id} --field what=${how}`);
      await done(at, `npx svc job stop wait-in-${id}`);
      await expect.poll(() => show(`${what}-in-${id}`)).toContain("does not exist");
      const kept = ["complete", "fail", "wait"].filter((how) => how !== what);
      for (const how of kept) expect(await show(`${how}-in-${id}`)).toContain('"finished_at": "');
      await first.interrupt();
    }
  },
);

describe("every command line of the pages", () => {
  const shown = shownCommands();

  it("is run as it is shown, or listed with the reason and the test that runs its like", () => {
    const known = new Set([...RUN.keys(), ...RUN_BY_DEPLOYMENTS, ...Object.keys(ELSEWHERE)]);

    expect(shown.length).toBeGreaterThan(100);
    expect(shown.filter(({ text }) => !known.has(text)).map(({ page, text }) => `${page}: ${text}`)).toEqual(
      [],
    );
  });

  it("is only listed while a page shows it and no scenario runs it, and names a test that exists", () => {
    const texts = new Set(shown.map(({ text }) => text));
    const run = [...RUN.keys(), ...RUN_BY_DEPLOYMENTS];
    const rotten = [...run, ...Object.keys(ELSEWHERE)].filter((text) => !texts.has(text));
    const twice = Object.keys(ELSEWHERE).filter((text) => run.includes(text));
    const missing = Object.entries(ELSEWHERE).flatMap(([text, { test }]) =>
      test && !readFileSync(join(REPOSITORY, test[0]), "utf8").includes(test[1])
        ? [`${text}: ${test.join(": ")}`]
        : [],
    );

    expect({ rotten, twice, missing }).toEqual({ rotten: [], twice: [], missing: [] });
  });
});

it("every variable of the pages is set by a scenario, or listed with the test that sets it", () => {
  const scenarios = readFileSync(new URL(import.meta.url), "utf8");
  const shown = shownVariables();
  const isSet = (name: string) => new RegExp(`\\b${name}\\b`).test(scenarios);
  const listed = Object.entries(VARIABLES_ELSEWHERE);

  expect(shown.length).toBeGreaterThan(30);
  expect(shown.filter((name) => !isSet(name) && VARIABLES_ELSEWHERE[name] === undefined)).toEqual([]);
  expect(listed.map(([name]) => name).filter((name) => isSet(name) || !shown.includes(name))).toEqual([]);
  const missing = listed.filter(
    ([, { test }]) => test && !readFileSync(join(REPOSITORY, test[0]), "utf8").includes(test[1]),
  );
  expect(missing).toEqual([]);
});
