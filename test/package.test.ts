// @alone
// @long
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { cp, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { client } from "agent-control-service/client";
import { beforeAll, describe, expect, it } from "vitest";
import { type PackedPackage, packPackage } from "./_built.ts";
import { once } from "./_once.ts";
import { shareOf } from "./_share.ts";
import { access, beginSvc, project, REPOSITORY } from "./cli/_svc.ts";

const run = promisify(execFile);
const bin = (name: string) => join(REPOSITORY, "node_modules/.bin", name);

let packed: PackedPackage;
beforeAll(async () => {
  packed = await packPackage();
});

/** Where Node looks for what a package imports: inside it, beside it, and further up. */
function folders(place: string): string[] {
  const outer = place.split(/(?<=node_modules\/)/).slice(0, -1);
  return [
    `${place}/node_modules/`,
    ...outer.map((_part, at) => outer.slice(0, at + 1).join("")),
    "node_modules/",
  ];
}

describe("the lock file", () => {
  it("has every package that npm ci looks for, including those of other systems, and no address", async () => {
    const text = await readFile(join(REPOSITORY, "package-lock.json"), "utf8");
    const { packages } = JSON.parse(text) as { packages: Record<string, { optionalDependencies?: object }> };

    const missing = Object.entries(packages).flatMap(([place, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter(
        (name) => !folders(place).some((folder) => packages[folder + name]),
      ),
    );

    expect(missing).toEqual([]);
    expect(text).not.toMatch(/"resolved": "https?:/);
  });

  it("has no package whose install script would run, download, or report something", async () => {
    const text = await readFile(join(REPOSITORY, "package-lock.json"), "utf8");
    const own = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8"));
    const { packages } = JSON.parse(text) as {
      packages: Record<string, { hasInstallScript?: boolean; optional?: boolean }>;
    };

    const withScripts = Object.entries(packages)
      .filter(([, { hasInstallScript }]) => hasInstallScript)
      .map(([place]) => place.split("node_modules/").at(-1)!);

    expect(withScripts.filter((name) => own.allowScripts[name] !== false)).toEqual([]);
    expect(own.scarfSettings).toEqual({ enabled: false });
  });
});

describe("the published package", () => {
  it("has what it needs, and no development files", () => {
    const paths = packed.files.map((file) => file.path);

    expect(paths).toEqual(
      expect.arrayContaining([
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "docs/index.md",
        "examples/README.md",
        "dist/cli.js",
        "dist/index.js",
        "dist/index.d.ts",
        "dist/testing.js",
        "dist/templates/init/_package.json",
        "dist/templates/init/_gitignore",
        "dist/templates/init/src/controller.ts",
      ]),
    );
    expect(paths.filter((path) => !/^(dist|docs|examples)\/|^[A-Za-z.]+$/.test(path))).toEqual([]);
    const shipped = paths.filter((path) => !/^dist\/templates\/init[\w-]*\/test\//.test(path));
    expect(shipped.filter((path) => /\.(test|map)|\.ci|node_modules|\/data\//.test(path))).toEqual([]);
    expect(packed.size).toBeLessThan(2_700_000);
  });

  it("brings few packages along, and is small with them", async () => {
    const { names, size } = await installedSize(join(await install(), "node_modules"));

    expect(names).toContain("agent-control-service");
    // Three of them are what people sign in with: openid-client, and jose and oauth4webapi that it is made of.
    expect(names.length, names.join(" ")).toBeLessThanOrEqual(22);
    expect(size).toBeLessThan(15_550_000);
  });

  it("names no page of its own that is elsewhere: its docs and examples are in it", async () => {
    const home = join(await install(), "node_modules/agent-control-service");
    const manifest = JSON.parse(await readFile(join(home, "package.json"), "utf8"));
    const { name, repository, homepage, bugs } = manifest;
    const addresses = pagesOf(home).flatMap((page) =>
      [...readFileSync(page, "utf8").matchAll(/https?:\/\/[^\s)"'`<>]+/g)].map(([address]) => address),
    );

    // Nobody has said where its repository is: an address would be a guess.
    expect({ repository, homepage, bugs }).toEqual({});
    expect(addresses.length).toBeGreaterThan(50);
    const isOwn = (address: string) => new RegExp(`^https?://[^/]+/.*${name}(?!\\.)`).test(address);
    expect(
      addresses.filter((address) => isOwn(address) && !/^https?:\/\/(?:127|localhost)/.test(address)),
    ).toEqual([]);
  });

  it("has every file and heading that its pages link to", async () => {
    const home = join(await install(), "node_modules/agent-control-service");
    const pages = pagesOf(home);

    expect(pages.map((page) => relative(home, page))).toEqual(
      expect.arrayContaining(["README.md", "SECURITY.md", "docs/agents.md", "examples/README.md"]),
    );
    expect(pages.flatMap((page) => deadLinks(page, home))).toEqual([]);
    const help = await run("npx", ["svc", "--help"], { cwd: await install() });
    const [, docs = "nowhere"] = /^Docs:\n {2}(\S+)$/m.exec(help.stdout) ?? [];
    expect(existsSync(join(await install(), docs)), docs).toBe(true);
  });

  it("has clean entry points and types", async () => {
    const publint = await run(bin("publint"), ["run", packed.tarball, "--strict"]);
    const attw = await run(bin("attw"), [packed.tarball, "--profile", "esm-only"]);

    expect(publint.stdout).toContain("All good");
    expect(attw.stdout).toContain("node16 (from ESM): 🟢 (ESM)");
  });

  it("runs the agent of the readme in an empty folder", async () => {
    const cwd = await installed({ "src/controller.ts": await agentOfReadme() }, ["ai", "@ai-sdk", "zod"]);
    const service = beginSvc(["start"], { cwd, env: { SERVICE_PORT: "0" }, command: ["npx", "svc"] });
    await service.prints(/Press Ctrl-C to stop/);
    const { url, key } = await access(cwd);

    const [start, list, answer] = await requestsOfReadme();
    const send = ({ path, body }: { path: string; body: string | undefined }) =>
      fetch(url + path, {
        headers: { "X-API-Key": key, "Content-Type": "application/json" },
        ...(body !== undefined && { method: "POST", body }),
      });
    const cases = (status: string) =>
      until(
        async () => (await (await send(list!)).json()) as { status: string; final_delivery: unknown }[],
        (all) => all.length === 1 && all[0]!.status === status,
      );

    const started = await send(start!);
    await cases("awaiting");
    const answered = await send(answer!);
    const [mail] = await cases("completed");

    expect([started.status, answered.status]).toEqual([202, 200]);
    expect(mail!.final_delivery).toEqual({
      reply: 'Thank you for writing. We are looking into "Where is order 12?"',
    });
    const imported = await run(
      process.execPath,
      [
        "--input-type=module",
        "-e",
        'console.log(typeof (await import("agent-control-service/testing")).testServer)',
      ],
      { cwd },
    );
    expect(imported.stdout).toBe("function\n");
  }, 600_000);

  it("works in a project with zod and a plugin that has options, a table, a page, a command and a hook", async () => {
    const cwd = await installed(
      {
        "src/audit.ts": await readFile(join(REPOSITORY, "examples/audit-plugin/audit.ts"), "utf8"),
        "src/controller.ts": ZOD_AGENT,
        "tsconfig.json": JSON.stringify(STRICT),
      },
      ["zod", "@types/node"],
    );

    const checked = await run(process.execPath, [join(REPOSITORY, "node_modules/typescript/bin/tsc")], {
      cwd,
    }).catch((error: { stdout: string }) => error);
    expect(checked.stdout).toBe("");

    const env = { SERVICE_PORT: "0" };
    const service = beginSvc(["start"], { cwd, env, command: ["npx", "svc"] });
    await service.prints(/Press Ctrl-C to stop/);
    const { url, key } = await access(cwd);
    const headers = { "X-API-Key": key, "Content-Type": "application/json" };
    const body = JSON.stringify({ job_context: { job_id: "one" }, job_fields: { amount: "12" } });
    const started = await fetch(`${url}/agents/payer/jobs`, { method: "POST", headers, body });
    expect(started.status).toBe(202);
    const stop = JSON.stringify({ job_context: { job_id: "one" } });
    const stopped = await fetch(`${url}/agents/payer/stop`, { method: "POST", headers, body: stop });

    expect(stopped.status).toBe(200);
    const changes = await until(
      async () => (await (await fetch(`${url}/changes`, { headers })).json()) as { job: string }[],
      (all) => all.length > 0,
    );
    expect(changes).toMatchObject([{ job: "one" }]);
    const told = await run("npx", ["svc", "changes"], { cwd });
    expect(told.stdout).toMatch(/one\s*$/m);
    await service.prints(/noted one/);
  }, 600_000);

  it("compiles each example of the page on plugins in a project, alone, and runs what they make", async () => {
    const blocks = await codeOf("docs/plugins.md");
    const files = Object.fromEntries(
      blocks.map((block, at) => [nameOf(block) ?? `src/block-${at + 1}.ts`, block]),
    );
    const names = Object.keys(files);
    const cwd = await installed({ ...files, "src/controller.ts": PLUGIN_SERVICE }, ["@types/node"]);
    const check = async (files: readonly string[]) => {
      await writeFile(join(cwd, "tsconfig.json"), JSON.stringify({ ...STRICT, files }));
      const tsc = join(REPOSITORY, "node_modules/typescript/bin/tsc");
      return (await run(process.execPath, [tsc], { cwd }).catch((error: { stdout: string }) => error)).stdout;
    };
    // Of a file, only what it merges into a module could reach another file.
    const merging = names.filter((name) => files[name]!.includes("declare module"));
    const problems: string[] = [];
    for (const checked of [...merging.map((name) => [name]), [...names, "src/controller.ts"]])
      problems.push(await check(checked));

    expect(merging.length).toBeGreaterThan(1);
    expect(problems.join("")).toBe("");
    expect(names.length).toBeGreaterThan(8);
    const service = beginSvc(["start"], { cwd, env: { SERVICE_PORT: "0" }, command: ["npx", "svc"] });
    await service.prints(/Press Ctrl-C to stop/);
    const { url, key } = await access(cwd);
    const send = async (method: string, path: string, body?: object) => {
      const headers = { "X-API-Key": key, "Content-Type": "application/json", accept: "application/json" };
      const response = await fetch(url + path, {
        ...{ method, headers },
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return [response.status, text === "" ? undefined : JSON.parse(text)];
    };
    const ada = { id: "ada", phone: "12", away: false };

    expect(await send("PUT", "/on-call/ada", { phone: "12" })).toEqual([200, ada]);
    expect((await send("PUT", "/on-call/ada", { phone: 12 }))[0]).toBe(422);
    expect(await send("GET", "/on-call?away=false")).toEqual([200, [ada]]);
    expect(await send("GET", "/on-call?away=true")).toEqual([200, []]);
    expect(await send("DELETE", "/on-call/ada")).toEqual([204, undefined]);
    expect(await send("DELETE", "/on-call/ada")).toMatchObject([404, { error_type: "not_found" }]);
    expect(await send("GET", "/admin/x/on-call")).toEqual([200, { people: ["Ada", "Grace"] }]);
    expect((await send("POST", "/agents/hello/jobs", {}))[0]).toBe(202);
    await service.prints(/greeted/);
    expect((await run("npx", ["svc", "receipts"], { cwd })).stdout).toMatch(/^api {2}\S+$/m);
    expect((await run("npx", ["svc", "greet", "Ada", "--times", "2"], { cwd })).stdout).toBe(
      "Hello Ada\n".repeat(2),
    );
  }, 600_000);
});

describe("svc init of the installed package", () => {
  it.each(shareOf(["agent", "chat", "approval", "langgraph"], 4))(
    "writes a project with the template %s that starts with the stand-in only if asked, and whose job completes",
    async (template) => {
      const cwd = await installed({}, ["ai", "@ai-sdk", "@langchain", "zod"]);
      await run("npx", ["svc", "init", "desk", "--template", template, "--yes"], { cwd });
      const folder = join(cwd, "desk");
      await symlink(join(cwd, "node_modules"), join(folder, "node_modules"));
      const noKeys = {
        OPENAI_API_KEY: "",
        ANTHROPIC_API_KEY: "",
        GEMINI_API_KEY: "",
        MODEL: "",
        MODEL_URL: "",
      };
      const env = { ...noKeys, SERVICE_PORT: "0" };
      const unasked = beginSvc(["start"], { cwd: folder, env });
      const refused = await unasked.prints(/Press Ctrl-C to stop/).catch(() => unasked.finished);
      expect(refused).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("set one of OPENAI_API_KEY"),
      });
      const watched = beginSvc(["dev"], { cwd: folder, env });
      await watched.prints(/a stand-in answers in place of a model/);
      watched.process.kill();
      await watched.finished;
      const service = beginSvc(["start"], { cwd: folder, env: { ...env, MODEL: "stand-in" } });
      const [, slug = ""] = await service.prints(/agents\s+(\S+)/);
      const { url, key } = await access(folder);

      const fields = template === "chat" ? { message: "Hello", once: true } : {};
      const job = await client(url, key).start(slug, fields);
      const asks: Record<string, string> = { approval: "Refund 120", langgraph: "Publish this?" };
      const question = asks[template];
      if (question !== undefined) {
        await expect.poll(async () => (await job.cases())[0]?.question?.question).toContain(question);
        await job.answer((await job.cases())[0]!.id, { approved: true });
      }

      expect(JSON.stringify(await job.result())).toContain("(stand-in)");
    },
    600_000,
  );
});

/** The packages below a folder, those inside others too, and the bytes of all files. */
async function installedSize(modules: string): Promise<{ names: string[]; size: number }> {
  const entries = readdirSync(modules, { recursive: true, withFileTypes: true, encoding: "utf8" });
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  // What is directly in a node_modules folder, or in a scope there.
  const isPackage = /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^@/]+)\/package\.json$/;
  const names = files.flatMap((file) => isPackage.exec(file)?.[1] ?? []);
  const size = files.reduce((sum, file) => sum + statSync(file).size, 0);
  return { names, size };
}

function pagesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md") && !name.includes("node_modules"))
    .map((name) => join(folder, name));
}

/** Links of an installed page that lead nowhere. A page of a template is in a project, beside what is installed there. */
function deadLinks(page: string, home: string): string[] {
  const text = readFileSync(page, "utf8").replace(/^```[\s\S]*?^```$|`[^`\n]*`/gm, "");
  const links = [
    ...text.matchAll(/\]\(([^)\s]+)[^)]*\)|(?:src|href|srcset)="([^"\s]+)|^\[[^\]]+\]: (\S+)/gm),
  ];
  return links.flatMap(([, inline, attribute, reference]) => {
    const link = inline ?? attribute ?? reference ?? "";
    const [path = "", heading] = link.split("#");
    if (/^[a-z]+:/.test(path)) return [];
    const installed = path.replace(/^node_modules\/agent-control-service(?=\/)/, home);
    const target = path === "" ? page : installed === path ? join(dirname(page), path) : installed;
    const isThere = existsSync(target) && (heading === undefined || headingsOf(target).includes(heading));
    return isThere ? [] : [`${relative(home, page)}: ${link}`];
  });
}

/** The anchors of a page's headings, as code hosts make them. */
function headingsOf(page: string): string[] {
  const text = readFileSync(page, "utf8").replace(/^```[\s\S]*?^```$/gm, "");
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** A folder in which the tarball is installed as a user would; other packages are those of the repository. */
async function installed(
  files: Readonly<Record<string, string>>,
  packages: readonly string[] = [],
): Promise<string> {
  const cwd = await project(files);
  const modules = join(cwd, "node_modules");
  await rm(modules, { recursive: true });
  await cp(await install(), cwd, { recursive: true, verbatimSymlinks: true });
  for (const name of packages) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(REPOSITORY, "node_modules", name), join(modules, name));
  }
  return cwd;
}

function install(): Promise<string> {
  return once("installed", async (folder) => {
    await writeFile(join(folder, "package.json"), '{ "private": true, "type": "module" }');
    const options = ["--omit=dev", "--prefer-offline", "--no-audit", "--no-fund"];
    // A package that does not support this Node fails the installation.
    await run("npm", ["install", "--engine-strict", packed.tarball, ...options], { cwd: folder });
  });
}

const ZOD_AGENT = `
import { createServer, defineAgent } from "agent-control-service";
import { definePlugin } from "agent-control-service/plugin";
import { z } from "zod";
import { audit } from "./audit.ts";

const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: z.object({ amount: z.coerce.number().min(1, "Pay at least 1") }),
      async run({ job, fields }) {
        const half: number = await job.step("half", () => fields.amount / 2);
        const item = await job.openCase({ id: "payment", name: "Payment" });
        const { ok } = await item.ask("ok", { question: \`Pay \${half}?\`, fields: z.object({ ok: z.boolean() }) });
        return { paid: ok ? half : 0 };
      },
    },
  },
});

const listener = definePlugin({
  name: "listener",
  dependsOn: ["audit"],
  setup({ hooks, log }) {
    hooks.on("audit:noted", ({ job }) => log.info(\`noted \${job}\`));
  },
});

export default createServer({ agents: [payer], plugins: [audit({ most: 10 }), listener()] });
`;

/** As strict as a project may be: the package's own types are checked, too. */
const STRICT = {
  compilerOptions: {
    ...{ target: "es2023", lib: ["es2023", "esnext.disposable", "dom"], module: "nodenext", types: ["node"] },
    ...{ strict: true, noEmit: true, skipLibCheck: false, allowImportingTsExtensions: true },
  },
};

/** A service with the plugins of the page on plugins; its blocks without a name of their own are numbered. */
const PLUGIN_SERVICE = `
import { createServer, defineAgent } from "agent-control-service";
import { teller, mailer } from "./parts.ts";
import { greeter, listener } from "./greeter.ts";
import { greetings } from "./greet.ts";
import { onCall } from "./on-call.ts";
import { onCallPage } from "./on-call-page.ts";
import { receipts } from "./receipts.ts";

const hello = defineAgent({ name: "Hello", version: "1.0.0", methods: { job_start: { run: () => "hello" } } });

export default createServer({
  agents: [hello, teller],
  plugins: [receipts({ most: 20 }), onCall(), onCallPage(), greeter(), listener(), mailer(), greetings()],
});
`;

/** The TypeScript on a page. */
async function codeOf(page: string): Promise<string[]> {
  const text = await readFile(join(REPOSITORY, page), "utf8");
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
}

/** The file that the first line of a block names. */
function nameOf(block: string): string | undefined {
  return /^\/\/ (src\/[\w.-]+\.ts)$/m.exec(block)?.[1];
}

async function agentOfReadme(): Promise<string> {
  return /```ts\n\/\/ src\/controller\.ts\n([\s\S]*?)```/.exec(await readme())![1]!;
}

/** What the readme has curl send: paths, and bodies where there are any. */
async function requestsOfReadme(): Promise<{ path: string; body: string | undefined }[]> {
  const [, commands] = /```sh\n(curl [\s\S]*?)```/.exec(await readme())!;
  return commands!.split(/^(?=curl )/m).map((command) => ({
    path: /127\.0\.0\.1:8000(\S+)/.exec(command)![1]!,
    body: /-d '([^']*)'/.exec(command)?.[1],
  }));
}

function readme(): Promise<string> {
  return readFile(join(REPOSITORY, "README.md"), "utf8");
}

async function until<T>(read: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (let tries = 0; tries < 1200; tries++) {
    const value = await read();
    if (isDone(value)) return value;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("It did not happen within two minutes");
}
