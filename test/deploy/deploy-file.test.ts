import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { editorSchema } from "../../src/deploy/file/editor-schema.ts";
import { SETTINGS } from "../../src/deploy/file/settings.ts";
import { svc } from "./_cli.ts";
import { PROJECT, type Stage, stage, temporaryProject, writeAll } from "./_fixture.ts";

const FILE = "deploy.yaml";
const BASE = "platform: memory\nname: hello\n";

const newest = (at: Stage, name = "hello-dev") => at.world.read().services[name]?.revisions.at(-1);
const planOf = async (at: Stage, options = "", env: Record<string, string> = {}) => {
  const { out } = await svc(at, `plan --json ${options}`, { env: { PATH: process.env.PATH, ...env } });
  return JSON.parse(out) as {
    actions: {
      action_type: string;
      resource_type: string;
      metadata: { changes: { field: string; from: string | null; to: string | null }[] } | null;
    }[];
    service_name: string;
    region: string;
    target_env_vars: Record<string, string>;
  };
};

describe("deploy.yaml", () => {
  it("makes svc deploy up the whole command, and each environment has its own part", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, {
      [FILE]: `${BASE}region: there-2
generateApiKey: true
variables:
  LOG_LEVEL: debug
  GREETING: hello
environments:
  prod:
    region: far-3
    variables:
      LOG_LEVEL: warn
  preview-*: {}
`,
    });

    const dev = await svc(at, "up");
    const prod = await svc(at, "up --env prod");
    const preview = await planOf(at, "--env preview-42");
    const [inDev, inProd] = [await planOf(at), await planOf(at, "--env prod")];
    const typed = await planOf(at, "--env prod --region here-1 --name other");

    expect([dev.code, prod.code]).toEqual([0, 0]);
    expect(newest(at)?.env).toMatchObject({ LOG_LEVEL: "debug", GREETING: "hello" });
    expect(newest(at, "hello-prod")?.env).toMatchObject({ LOG_LEVEL: "warn", GREETING: "hello" });
    expect(at.world.read().secrets["hello-prod"]).toHaveProperty("SERVICE_API_KEY");
    expect([inDev.region, inProd.region, preview.service_name]).toEqual([
      "there-2",
      "far-3",
      "hello-preview-42",
    ]);
    expect([typed.region, typed.service_name]).toEqual(["here-1", "other-prod"]);
    expect(dev.out).toMatch(/svc deploy logs$/m);
  });

  it("what it does not name stays as it runs, and what it removes by name is removed", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, {
      [FILE]: `${BASE}variables: { GREETING: hello, OLD: x }\nsecrets: { PAY_TOKEN: , GONE: }\n`,
    });
    const env = { PATH: process.env.PATH, PAY_TOKEN: "pay-value", GONE: "gone-value" };
    const first = await svc(at, "up", { env });

    writeAll(at.cwd, { [FILE]: BASE });
    const silent = await planOf(at);
    writeAll(at.cwd, {
      [FILE]: `${BASE}variables: { OLD: null, NEW: y }\nsecrets: { GONE: { remove: true } }\n`,
    });
    const removing = await planOf(at);
    await svc(at, "up");

    expect(first.code).toBe(0);
    const changed = silent.actions.filter(
      ({ action_type, resource_type }) => action_type !== "noop" && resource_type !== "image",
    );
    expect(changed).toEqual([]);
    const service = removing.actions.find(({ resource_type }) => resource_type === "service");
    expect(service?.metadata?.changes).toEqual([
      { field: "env.NEW", from: null, to: "y" },
      { field: "env.OLD", from: "x", to: null },
      { field: "secret.GONE", from: "set", to: null },
    ]);
    expect(newest(at)).toMatchObject({ env: { GREETING: "hello", NEW: "y" } });
    expect(Object.keys(newest(at)?.secrets ?? {})).toEqual(["PAY_TOKEN"]);
  });

  it("a fresh clone in a pipeline plans nothing for the commit that runs", async () => {
    const at = await stage({ predictable: true });
    const committed = {
      ...PROJECT,
      [FILE]: `${BASE}variables: { GREETING: hello }\nsecrets: { PAY_TOKEN: }\n`,
    };
    writeAll(at.cwd, committed);
    await svc(at, "up", { env: { PATH: process.env.PATH, PAY_TOKEN: "pay-value" } });

    const clone = { ...at, cwd: temporaryProject(committed) };
    const plan = await svc(clone, "plan --detailed-exitcode", { env: { PATH: process.env.PATH, CI: "1" } });
    const before = at.world.read().calls.length;
    const up = await svc(clone, "up", { env: { PATH: process.env.PATH, CI: "1" } });

    expect([plan.code, up.code]).toEqual([0, 0]);
    expect(at.world.read().calls.length).toBe(before);
  });

  it("passes secrets from another variable and from files, never from a file that would be committed", async () => {
    const at = await stage({ predictable: true });
    const outside = temporaryProject({ "key.pem": "from a file\n" });
    writeAll(at.cwd, {
      [FILE]: `${BASE}secrets:\n  PAY_TOKEN: { env: PAY_LIVE }\n  SIGNING_KEY: { file: ${outside}/key.pem }\n  KEPT: { file: .deployment/values/KEPT }\n`,
      ".deployment/values/KEPT": "kept here",
      "src/key.txt": "committed",
    });

    const none = await svc(at, "up");
    const up = await svc(at, "up", { env: { PATH: process.env.PATH, PAY_LIVE: "of the other" } });
    const values = Object.entries(at.world.read().secrets["hello-dev"] ?? {}).map(([name, { value }]) => [
      name,
      value,
    ]);
    writeAll(at.cwd, { [FILE]: `${BASE}secrets: { BAD: { file: src/key.txt } }\n` });
    const bad = await svc(at, "plan");
    writeAll(at.cwd, { [FILE]: `${BASE}secrets: { BAD: { file: ..keys/key.txt } }\n` });
    const dotted = await svc(at, "plan");

    expect(none.err).toMatch(/Secret PAY_TOKEN has no value[\s\S]*PAY_LIVE=…/);
    expect(up.code).toBe(0);
    expect(Object.fromEntries(values)).toEqual({
      PAY_TOKEN: "of the other",
      SIGNING_KEY: "from a file",
      KEPT: "kept here",
    });
    for (const { err } of [bad, dotted])
      expect(err).toMatch(/secrets\.BAD\.file must be outside of the project/);
  });

  it("passes secrets that a command prints, asks once, and shows and logs what it prints nowhere", async () => {
    const at = await stage({ predictable: true });
    const vault = temporaryProject({ token: "of-the-vault-1\n", asked: "" });
    const command = `echo x >> ${vault}/asked && cat ${vault}/token`;
    const useCommand = (text: string) =>
      writeAll(at.cwd, { [FILE]: `${BASE}secrets:\n  PAY_TOKEN: { command: "${text}" }\n` });
    const stored = () => at.world.read().secrets["hello-dev"]?.PAY_TOKEN?.value;
    const asked = () => readFileSync(join(vault, "asked"), "utf8").length / 2;
    const logged = () =>
      readdirSync(join(at.cwd, ".deployment"), { recursive: true, encoding: "utf8" })
        .map((name) => join(at.cwd, ".deployment", name))
        .filter((path) => statSync(path).isFile())
        .map((path) => readFileSync(path, "utf8"))
        .join("\n");

    useCommand(command);
    const first = await svc(at, "up --verbose");
    const [value, times] = [stored(), asked()];
    writeAll(vault, { token: "of-the-vault-2" });
    // A variable of the same name is not the one that was asked for.
    const changed = await svc(at, "plan --detailed-exitcode", {
      env: { PATH: process.env.PATH, PAY_TOKEN: "x" },
    });
    const second = await svc(at, "up");

    expect([first.code, value, times]).toEqual([0, "of-the-vault-1", 1]);
    expect([changed.code, second.code, stored()]).toEqual([2, 0, "of-the-vault-2"]);
    for (const text of [first.out, first.err, second.out, changed.out, logged()])
      expect(text).not.toContain("of-the-vault");
  });

  it("stops before it changes anything where the command of a secret fails or prints nothing, and plans without it", async () => {
    const at = await stage({ predictable: true });
    const run = async (command: string, what: string) => {
      writeAll(at.cwd, { [FILE]: `${BASE}secrets:\n  PAY_TOKEN: { command: "${command}" }\n` });
      return svc(at, what);
    };

    const failed = await run("echo not signed in >&2; exit 7", "up");
    const empty = await run("true", "up");
    const plan = await run("exit 7", "plan --read-only");
    const both = await run('x" , env: "Y', "plan");

    expect(failed).toMatchObject({ code: 2 });
    expect(failed.err).toMatch(/The command of secret PAY_TOKEN failed: exit code 7[\s\S]*not signed in/);
    expect(empty.err).toMatch(/The command of secret PAY_TOKEN printed nothing/);
    expect([plan.code, at.world.read().services]).toEqual([0, {}]);
    expect(both.err).toMatch(/must have only one of "env", "file", "command", "ref" and "remove"/);
  });

  it("stores nothing new where a command fails for a secret that the platform has", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, { [FILE]: `${BASE}secrets: { PAY_TOKEN: { command: "echo first" } }\n` });
    await svc(at, "up");
    writeAll(at.cwd, { [FILE]: `${BASE}secrets: { PAY_TOKEN: { command: "echo half; exit 1" } }\n` });

    const up = await svc(at, "up");

    expect(up.code).toBe(2);
    expect(at.world.read().secrets["hello-dev"]?.PAY_TOKEN?.value).toBe("first");
  });

  it.each([
    ["reigon: x\n", /line 3, column 1: reigon is unknown\. Did you mean region\?/],
    ["min-instances: 1\n", /line 3, column 1: min-instances is unknown\. Did you mean minInstances\?/],
    ["memory: 1Gi\n", /line 3, column 1: memory is not an option of memory/],
    ["minInstances: many\n", /line 3, column 1: minInstances must be a number/],
    ["maxInstances: 0\n", /line 3, column 1: maxInstances must be at least 1/],
    ["port: 70000\n", /line 3, column 1: port must be 1 to 65535/],
    ["region:\n", /line 3, column 1: region has no value/],
    ["environments:\n  dev:\n    port: x\n", /line 5, column 5: environments\.dev\.port must be a number/],
    ["environments:\n  dev:\n    reigon: x\n", /line 5, column 5: environments\.dev\.reigon is unknown/],
    ["environments:\n  Dev: {}\n", /line 4, column 3: environments\.Dev must be lower-case/],
    ["variables:\n  A: 3\n", /line 4, column 3: variables\.A must be text: put quotes/],
    ["variables:\n  A-B: x\n", /line 4, column 3: variables\.A-B must be a variable name/],
    ["variables:\n  SERVICE_API_KEY: abc\n", /variables\.SERVICE_API_KEY is a secret: list its name/],
    ["variables:\n  SERVICE_PORT: '1'\n", /variables\.SERVICE_PORT is set by the options/],
    ["variables: {A: x}\nsecrets: {A: }\n", /variables\.A is also a secret/],
    ["secrets:\n  A: {value: planted-value}\n", /line 4, column 7: secrets\.A\.value is unknown here/],
    ["secrets:\n  A: planted-value\n", /line 4, column 3: secrets\.A must be/],
    ["secrets:\n  A: {env: B, file: c}\n", /secrets\.A must have only one of/],
    [`variables:\n  T: glpat-${"a1".repeat(12)}\n`, /variables\.T contains a GitLab token/],
    ["variables:\n  DB: postgres://u:planted-value@h/d\n", /variables\.DB contains a password/],
    ["a: b: c\n", /line 3, column \d+: /],
    ["store: mysql\n", /store must be "file" or "external"/],
  ])("an error names line and column, and quotes no value: %j", async (text, message) => {
    const at = await stage();
    writeAll(at.cwd, { [FILE]: BASE + text });

    const { code, err, out } = await svc(at, "plan");

    expect(code).toBe(2);
    expect(err).toMatch(message);
    expect(err + out).not.toMatch(/planted-value|a1a1a1/);
  });

  it("an environment that it does not list is a mistake", async () => {
    const at = await stage();
    writeAll(at.cwd, { [FILE]: `${BASE}environments: { production: {} }\n` });

    const { code, err } = await svc(at, "up --env prodution");

    expect(code).toBe(2);
    expect(err).toMatch(/does not list this environment[\s\S]*Did you mean production\?/);
    expect(at.world.read().calls).toEqual([]);
  });

  it("is read by status, logs, rollback and down too, and is not part of the image", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, { [FILE]: `${BASE}variables: { A: x }\n` });
    await svc(at, "up");
    writeAll(at.cwd, { [FILE]: `${BASE}variables: { A: y }\n# another comment\n` });
    await svc(at, "up");

    const codes = [];
    for (const line of ["status", "logs", "doctor", "rollback --yes", "down --yes"])
      codes.push((await svc(at, line)).code);

    expect(codes).toEqual([0, 0, expect.any(Number), 0, 0]);
    expect(at.world.read().calls.filter((call) => call === "image.build")).toHaveLength(1);
  });

  it("every command accepts the common options", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, { [FILE]: BASE });
    await svc(at, "up");
    const options =
      "--platform memory --name hello --env dev --region here-1 --project-id p --port 8000 --image t --generate-api-key --generate-rsa --yes --no-rollback --timeout 30 --verbose";

    for (const line of ["plan", "status", "logs", "doctor", "down"])
      expect((await svc(at, `${line} ${options}`)).err).not.toMatch(/Unknown option/);
    expect((await svc(at, `clean ${options}`)).code).toBe(0);
    expect((await svc(at, "status --help")).out).not.toMatch(/--generate-rsa/);
  });
});

describe("svc deploy init", () => {
  it("writes a file that every later command reads, and that is valid", async () => {
    const at = await stage({ predictable: true });

    const init = await svc(at, "init --platform memory --name hello --canary --yes");
    const plan = await planOf(at);
    const again = await svc(at, "init --platform memory --yes");

    expect(init.code).toBe(0);
    expect(readFileSync(join(at.cwd, FILE), "utf8")).toMatch(
      /^# yaml-language-server: \$schema=[\s\S]*platform: memory\nname: hello\nregion: here-1\ncanary: true\ngenerateApiKey: true/,
    );
    expect(plan.service_name).toBe("hello-dev");
    expect([again.code, again.err]).toEqual([2, expect.stringMatching(/already exists/)]);
  });

  it("decides for nobody that jobs may be lost with the disk: prod is refused until a line says so", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });
    const init = await svc(at, "init --platform memory --name hello --yes");
    const text = readFileSync(join(at.cwd, FILE), "utf8");
    const undecided = await svc(at, "plan --env prod");
    writeAll(at.cwd, { [FILE]: text.replace("# store: file ", "store: file ") });

    const decided = await svc(at, "up --env prod --yes");
    rmSync(join(at.cwd, FILE));
    const given = await svc(at, "init --platform memory --name hello --storage s3://jobs/prod --yes");

    expect(init.out).toContain("Not decided yet: where jobs are stored; memory wipes files");
    expect(text).toMatch(/^# storage: create/m);
    expect(undecided).toMatchObject({
      code: 5,
      err: expect.stringContaining('"store: file" in deploy.yaml'),
    });
    expect(decided.code, decided.err).toBe(0);
    expect(given.out).not.toContain("Not decided");
    expect(readFileSync(join(at.cwd, FILE), "utf8")).toMatch(/^storage: s3:\/\/jobs\/prod$/m);
  });

  it("has nothing to decide where the disk lasts, or the earlier file says it", async () => {
    const lasting = await stage({ predictable: true });
    const moving = await stage({ predictable: true, ephemeralDisk: true });
    writeAll(moving.cwd, { ".deployment/config.yaml": "store: external\n" });

    for (const at of [lasting, moving]) {
      const { code, out } = await svc(at, "init --platform memory --name hello --json --yes");

      expect(code).toBe(0);
      expect(JSON.parse(out)).toMatchObject({ undecided: [] });
      expect(readFileSync(join(at.cwd, FILE), "utf8")).not.toContain("# store: file");
    }
  });

  it("moves config.yaml, comments included, and the values of its secrets stay out of it", async () => {
    const at = await stage({ predictable: true });
    const old = ".deployment/config.yaml";
    writeAll(at.cwd, {
      [old]: `# What \`svc deploy\` passes to your service. This file is yours
# our greeting
environment:
  # asked by Ada
  GREETING: "hello" # twice
secrets:
  # for invoices
  - name: PAY_TOKEN
    value: planted-value
  - name: ERP_TOKEN
    description: token for the ERP
store: external
`,
    });

    const { code, out } = await svc(at, "init --platform memory --name hello --yes");
    const text = readFileSync(join(at.cwd, FILE), "utf8");
    const up = await svc(at, "up", { env: { PATH: process.env.PATH, ERP_TOKEN: "erp-value" } });

    expect(code).toBe(0);
    expect(out).toMatch(/Moved from \.deployment\/config\.yaml: variables GREETING/);
    expect(out).toMatch(/secrets PAY_TOKEN, ERP_TOKEN/);
    for (const part of ["# our greeting", "# asked by Ada", "# twice", "# for invoices", "token for the ERP"])
      expect(text).toContain(part);
    expect(text).not.toMatch(/planted-value|This file is yours/);
    expect(statSync(join(at.cwd, ".deployment/values/PAY_TOKEN")).mode & 0o777).toBe(0o600);
    expect(existsSync(join(at.cwd, old))).toBe(false);
    expect(up.code).toBe(0);
    expect(newest(at)).toMatchObject({
      env: { GREETING: "hello", SERVICE_STORE: "external" },
      secrets: { PAY_TOKEN: "PAY_TOKEN:1", ERP_TOKEN: "ERP_TOKEN:1" },
    });
    expect(at.world.read().secrets["hello-dev"]?.PAY_TOKEN?.value).toBe("planted-value");
  });
});

describe("the editor schema of deploy.yaml", () => {
  it("has each setting, and the options of the platforms, with what they mean", async () => {
    const at = await stage();

    const schema = editorSchema([at.platform as never]) as {
      properties: Record<string, { description?: string; type?: unknown }>;
    };

    for (const name of [...Object.keys(SETTINGS), "variables", "secrets", "store", "minInstances"])
      expect(schema.properties[name]?.description, name).toMatch(/\w/);
    expect(schema.properties.minInstances).toMatchObject({ type: "integer", minimum: 0 });
  });
});

describe("the page about deploy.yaml", () => {
  const page = readFileSync(new URL("../../docs/deploy.md", import.meta.url), "utf8");

  it.each([...Object.keys(SETTINGS), "variables", "secrets", "store", "environments"])(
    "explains %s",
    (name) => {
      expect(page).toMatch(new RegExp(`^\\| .*\`${name}\``, "m"));
    },
  );
});

describe("hooks", () => {
  const hooks = (before: string, after: string) =>
    `${BASE}variables:\n  GREETING: hello\nsecrets:\n  TOKEN: { env: TOKEN_HERE }\nhooks:\n  beforeBuild: "${before}"\n  afterRelease: "${after}"\n`;
  const keep = (file: string) => `mkdir -p .deployment && printenv >> .deployment/${file}`;
  const env = { PATH: process.env.PATH, TOKEN_HERE: "planted-token-1", SERVICE_API_KEY: "planted-key-22" };

  it("run around a release, with its variables and without its secrets", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, { [FILE]: hooks(keep("before.txt"), keep("after.txt")) });

    const { code, err } = await svc(at, "up", { env });

    expect(code, err).toBe(0);
    const [before, after] = ["before.txt", "after.txt"].map((file) =>
      readFileSync(join(at.cwd, ".deployment", file), "utf8"),
    );
    expect(before).toContain("GREETING=hello");
    expect(after).toContain("GREETING=hello");
    expect(after).toContain("SERVICE_PUBLIC_URL=http");
    expect(`${before}${after}`).not.toContain("planted-");
    expect(newest(at)?.secrets).toHaveProperty("TOKEN");
  });

  it("end a deployment before the build, or report after it and run again on the next up", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, { [FILE]: hooks("echo no generator here; exit 3", "true") });
    const stopped = await svc(at, "up", { env });
    const callsBefore = [...at.world.read().calls];

    writeAll(at.cwd, { [FILE]: hooks("true", "exit 4") });
    const reported = await svc(at, "up", { env });
    const served = newest(at)?.env.GREETING;
    writeAll(at.cwd, { [FILE]: hooks("true", keep("after.txt")) });
    const again = await svc(at, "up", { env });

    expect(stopped.code).toBe(1);
    expect(stopped.err).toContain("hooks.beforeBuild failed: exit code 3");
    expect(stopped.err).toContain("no generator here");
    expect(callsBefore).toEqual([]);
    expect(reported.code).toBe(1);
    expect(reported.err).toContain("hooks.afterRelease failed: exit code 4");
    expect(reported.err).toContain("The release is serving");
    expect(served).toBe("hello");
    expect(again.code, again.err).toBe(0);
    expect(existsSync(join(at.cwd, ".deployment/after.txt"))).toBe(true);
  });
});
