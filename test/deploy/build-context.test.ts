// @long
import { appendFileSync, readdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createServer, defineAgent } from "agent-control-service";
import { describe, expect, it } from "vitest";
import { packContext } from "../../src/deploy/build-context.ts";
import { checkContext } from "../../src/deploy/context-findings.ts";
import type { DeployEvent } from "../../src/deploy/events.ts";
import { run } from "../../src/deploy/exec.ts";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { toTar } from "../../src/deploy/tar.ts";
import { shareOf } from "../_share.ts";
import { jobContext } from "../http/_jobs.ts";
import { alone, bytesOf, packed, pathsOf, textFile } from "./_context.ts";
import { tarNames } from "./_docker-client.ts";
import { PROJECT, temporaryProject, writeAll } from "./_fixture.ts";

const DOCKER_FILES = { dockerfile: "FROM x\n", dockerignore: ".deployment\n**/*.key\n" };
const KEY_TEXT = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";

/** A private key as found in a file; built from parts, so that no scanner mistakes this file for one. */
function privateKey(kind = "", newline = "\n"): string {
  const dashes = "-".repeat(5);
  return `${dashes}BEGIN ${kind}PRIVATE KEY${dashes}${newline}${KEY_TEXT}${newline}`;
}

describe("the build context", () => {
  it("excludes what is ignored, installed modules and the deployment folder", async () => {
    const cwd = temporaryProject({
      ...PROJECT,
      ".deployment/state.json": "{}",
      "node_modules/x/index.js": "",
      "certs/server.key": "secret",
      "data/api-key": "secret",
      ".dockerignore": "data\n",
    });

    const { files } = await packContext(alone(cwd), DOCKER_FILES);

    expect(files.map((file) => file.path)).toEqual([
      ".dockerignore",
      "Dockerfile",
      "package.json",
      "src/controller.ts",
    ]);
  });

  it("has the same bytes for the same files, whatever their times", async () => {
    const pack = async (files?: Record<string, string>) =>
      packContext(alone(temporaryProject(files)), DOCKER_FILES);
    const one = await pack();
    const two = await pack();
    const other = await pack({ ...PROJECT, "src/controller.ts": "2" });

    expect(two.hash).toBe(one.hash);
    expect((await bytesOf(two.tarGz())).equals(await bytesOf(one.tarGz()))).toBe(true);
    expect((await bytesOf(one.tarGz())).equals(await bytesOf(one.tarGz()))).toBe(true);
    expect(other.hash).not.toBe(one.hash);
  });

  it("is read by tar: long names, links, modes", async () => {
    const long = `${"folder-with-a-long-name/".repeat(6)}file-ü.txt`;
    const cwd = temporaryProject({});
    const archive = toTar([
      textFile(long, "long"),
      textFile("run.sh", "#!/bin/sh\n", { executable: true }),
      textFile("link", "", { link: "run.sh" }),
    ]);

    const result = await run("tar", ["xf", "-", "-C", cwd], { input: archive, env: process.env });

    expect(result).toMatchObject({ code: 0, stderr: "" });
    expect(readFileSync(join(cwd, long), "utf8")).toBe("long");
    expect((await run(join(cwd, "link"), [], { env: process.env })).code).toBe(0);
  });

  it("carries symbolic links as such", async () => {
    const cwd = temporaryProject();
    symlinkSync("src/controller.ts", join(cwd, "main.ts"));

    const { files } = await packContext(alone(cwd), DOCKER_FILES);

    expect(files.find((file) => file.path === "main.ts")?.link).toBe("src/controller.ts");
  });

  it("does not read excluded folders", async () => {
    // A data folder is reported when its names are read.
    const data = { "private/x/MANIFEST.json": '{"format": 1, "files": []}' };
    const read = await packed(temporaryProject({ ...PROJECT, ...data }));
    const skipped = await packed(
      temporaryProject({ ...PROJECT, ...data, ".dockerignore": "private\n!public/x\n" }),
    );

    expect([read.leftOut, skipped.leftOut]).toEqual([[{ path: "private/x/", why: "data" }], []]);
  });
});

describe("a large build context", () => {
  it.each(shareOf([2.1, 0.3], 2))(
    "is packed with little memory, including a file of %s GiB",
    async (gib) => {
      const cwd = temporaryProject();
      const size = Math.ceil(gib * 1024 ** 3);
      writeFileSync(join(cwd, "model.bin"), "start");
      // A hole takes no room on the disk.
      truncateSync(join(cwd, "model.bin"), size);
      const before = process.memoryUsage().rss;
      let most = 0;
      let total = 0;

      const context = await packContext(alone(cwd), DOCKER_FILES);
      for await (const chunk of context.tar()) {
        total += chunk.length;
        most = Math.max(most, process.memoryUsage.rss());
      }

      expect(context.size).toBeGreaterThan(size);
      expect(total).toBeGreaterThan(size);
      expect((most - before) / 1024 ** 2).toBeLessThan(200);
    },
    600_000,
  );

  it("a file above 8 GiB has its size where tar reads it", async () => {
    const size = 9 * 1024 ** 3;
    const pieces = toTar([{ path: "model.bin", size, content: () => [] }]);
    const blocks: Uint8Array[] = [];
    for await (const piece of pieces) blocks.push(piece);

    // The names come before the content, so a listing needs no nine gigabytes.
    const listed = await run("tar", ["tvf", "-"], { input: Buffer.concat(blocks), env: process.env });

    expect(listed.stdout).toMatch(new RegExp(`${size} .* model\\.bin`));
  });

  it("is named in the plan with its largest files", async () => {
    const cwd = temporaryProject();
    writeFileSync(join(cwd, "model.bin"), "");
    truncateSync(join(cwd, "model.bin"), 300 * 1024 ** 2);
    const events: DeployEvent[] = [];

    const findings = checkContext(await packed(cwd), (event) => events.push(event));

    expect(findings).toEqual([
      expect.objectContaining({
        level: "warning",
        subject: "Size",
        message: expect.stringMatching(/315 MB: model\.bin/),
      }),
    ]);
    expect(events).toHaveLength(1);
  });

  it.each([
    ["grew", (path: string) => appendFileSync(path, "more")],
    ["shrank", (path: string) => truncateSync(path, 2)],
    ["became another", (path: string) => writeFileSync(path, "export default []")],
  ])("is refused if a file %s since the plan", async (_what, change) => {
    const cwd = temporaryProject({ ...PROJECT, "src/controller.ts": "export default {}" });
    const context = await packContext(alone(cwd), DOCKER_FILES);
    change(join(cwd, "src/controller.ts"));

    await expect(bytesOf(context.tar())).rejects.toThrow(/changed while the project was packed/);
    await expect(bytesOf(context.tarGz())).rejects.toThrow(/changed while the project was packed/);
    const given = run("cat", [], { input: context.tar(), env: process.env });
    await expect(given).rejects.toThrow(/changed while the project was packed/);
  });
});

const CREDENTIALS = [
  ".env",
  ".env.local",
  ".envrc",
  "prod.env",
  ".netrc",
  ".htpasswd",
  ".boto",
  ".s3cfg",
  ".vault-token",
  ".dockercfg",
  "client_secret_123.apps.example.json",
  ".aws/credentials",
  ".ssh/config",
  ".docker/config.json",
  ".git-credentials",
  ".kube/config",
  "cert.pfx",
  "store.jks",
  "store.p12",
  "Server.PEM",
  "tls.key",
  "id_rsa",
  "id_ed25519.old",
  "terraform.tfstate",
  ".terraform.tfstate",
  "x.tfstate.backup",
  "prod.tfvars",
  ".terraform/modules.json",
  "service-account.json",
  "my-service-account-prod.json",
  "aws-credentials.json",
  "application_default_credentials.json",
  "gha-creds-0123456789abcdef.json",
  "api-key",
  "rsa-private-key.pem",
];

describe("credentials by name", () => {
  it.each(["", "src/", "pkg/a/b/"])("are excluded from the image below %j", async (folder) => {
    const planted = Object.fromEntries(CREDENTIALS.map((name) => [`${folder}${name}`, "planted"]));
    // A folder with keys stays out as a whole; here each name is to be tried by itself.
    const code = folder === "" ? {} : { [`${folder}controller.ts`]: "export default {};" };
    const cwd = temporaryProject({ ...PROJECT, ...code, ...planted });

    const { files } = await packed(cwd);
    const { files: edited } = await packContext(alone(cwd), { dockerfile: "", dockerignore: "# mine\n" });

    for (const each of [files, edited]) {
      const bytes = await bytesOf(toTar(each));
      expect(bytes.includes("planted")).toBe(false);
    }
  });

  it.each([
    ".env.example",
    "src/.env.template",
    "src/credentials.ts",
    "src/api-key.ts",
    "src/keys/index.ts",
    "src/environment.ts",
    ".docker/nginx.conf",
    "keyboard.json",
    "monkey.ts",
    "docs/pem.md",
  ])("%s is not excluded", async (path) => {
    const context = await packed(temporaryProject({ ...PROJECT, [path]: "x" }));

    expect(pathsOf(context)).toEqual([path]);
    expect(context.leftOut).toEqual([]);
  });

  it("are reported, except for those that the user's own file names", async () => {
    const cwd = temporaryProject({
      ...PROJECT,
      ".env": "",
      "src/i18n/credentials.json": "{}",
      "certs/a.pem": "",
      ".aws/config": "",
      ".dockerignore": "certs\n",
    });
    const events: DeployEvent[] = [];

    const context = await packed(cwd);
    checkContext(context, (event) => events.push(event));

    expect(context.leftOut.map(({ path }) => path).sort()).toEqual([
      ".aws/",
      ".env",
      "src/i18n/credentials.json",
    ]);
    expect(events).toEqual([
      expect.objectContaining({
        type: "notice",
        message: expect.stringContaining("src/i18n/credentials.json"),
        fix: expect.stringMatching(/"!.*\.(env|json)"/),
      }),
    ]);
  });

  it("are included if a line names one in full, and not if a line names its folder", async () => {
    const files = { ...PROJECT, "certs/ca.pem": "public", "certs/tls.key": "x", ".aws/config": "y" };
    const wide = temporaryProject({ ...files, ".dockerignore": "*\n!certs\n!src\n!*/*.pem\n!**/config\n" });
    const exact = temporaryProject({ ...files, ".dockerignore": "!certs/ca.pem\n!/.aws/config\n" });

    expect(pathsOf(await packed(wide))).toEqual([]);
    expect(pathsOf(await packed(exact))).toEqual([".aws/config", "certs/ca.pem"]);
  });
});

describe("the data of a service", () => {
  it("is excluded from the image, whatever its folder is called", async () => {
    const cwd = temporaryProject();
    const dataDir = join(cwd, "var/.state");
    const agent = defineAgent({
      name: "one",
      version: "1.0.0",
      methods: { job_start: { run: () => "done" } },
    });
    const headers = { "x-api-key": "a-key-of-this-test", "content-type": "application/json" };
    const service = createServer({
      agents: [agent],
      apiKey: headers["x-api-key"],
      rsaPrivateKey: newRsaKey(),
      dataDir,
      logTo: () => undefined,
    });
    const start = {
      method: "POST",
      headers,
      body: JSON.stringify({ job_context: jobContext("j1"), job_fields: {} }),
    };
    const started = await service.fetch(new Request("http://127.0.0.1/agents/one/jobs", start));
    await service.close();
    writeAll(cwd, { "var/.state/notes.txt": "planted", "var/readme.md": "" });

    const context = await packed(cwd);

    expect(started.status).toBe(202);
    expect(readdirSync(dataDir)).toContain("MANIFEST.json");
    expect(pathsOf(context)).toEqual(["var/readme.md"]);
    expect(context.leftOut).toEqual([{ path: "var/.state/", why: "data" }]);
  });

  it("a damaged manifest and a folder that only has keys are recognized too", async () => {
    const cwd = temporaryProject({
      ...PROJECT,
      "a/MANIFEST.json": "{",
      "a/journal.1.jsonl": "planted",
      "b/api-key": "planted",
      "b/other": "planted",
    });

    const context = await packed(cwd);

    expect(pathsOf(context)).toEqual([]);
    expect(context.leftOut).toEqual([
      { path: "a/", why: "data" },
      { path: "b/", why: "keys" },
    ]);
  });

  it("another program's MANIFEST.json is not excluded", async () => {
    const cwd = temporaryProject({ ...PROJECT, "app/MANIFEST.json": '{"name": "web app"}' });

    expect(pathsOf(await packed(cwd))).toEqual(["app/MANIFEST.json"]);
  });

  it.each(["", "src/"])(
    "among the code below %j ends the deployment; a key there is only excluded",
    async (folder) => {
      const data = temporaryProject({ ...PROJECT, [`${folder}MANIFEST.json`]: '{"format": 1, "files": []}' });
      const key = temporaryProject({ ...PROJECT, [`${folder}api-key`]: "planted" });

      await expect(packed(data)).rejects.toMatchObject({
        code: "preflight",
        fix: expect.stringContaining("--data-dir"),
      });
      expect((await packed(key)).leftOut).toEqual([{ path: `${folder}api-key`, why: "credential" }]);
    },
  );
});

describe("secrets by a file's content", () => {
  it.each([
    ["config/a.txt", privateKey()],
    ["config/a.txt", privateKey("RSA ", "\r\n")],
    ["config/a.ts", `export const key = "${privateKey("EC ", "\\n")}";`],
    ["a.asc", privateKey("OPENSSH ")],
    ["my-project-1a2b3c.json", JSON.stringify({ type: "service_account", private_key: privateKey() })],
  ])(
    "a private key in %s ends the deployment, and the message says how to include it",
    async (path, text) => {
      const files = { ...PROJECT, [path]: text };
      const context = await packed(temporaryProject(files));
      const allowed = await packed(temporaryProject({ ...files, ".dockerignore": `!${path}` }));
      const ignored = await packed(temporaryProject({ ...files, ".dockerignore": path }));
      const events: DeployEvent[] = [];

      expect(() => checkContext(context, () => undefined)).toThrow(path);
      expect(() => checkContext(context, () => undefined)).toThrow(
        expect.objectContaining({ exitCode: 5, fix: expect.stringContaining(`"!${path}"`) }),
      );
      expect(checkContext(allowed, (event) => events.push(event))).toEqual([]);
      expect(checkContext(ignored, (event) => events.push(event))).toEqual([]);
      expect([pathsOf(allowed), pathsOf(ignored), events]).toEqual([[path], [], []]);
    },
  );

  it.each([
    ["an AWS access key", `AKIA${"QWERTYUIOPASDFGH"}`],
    ["a GitHub token", `ghp_${"a1B2".repeat(9)}`],
    ["an npm token", `npm_${"a1B2".repeat(9)}`],
    ["a Slack token", `xoxb-${"1234567890".repeat(3)}`],
    ["a Stripe key", `sk_live_${"a1B2".repeat(6)}`],
    ["a Google API key", `AIza${"a1B2c".repeat(7)}`],
  ])("%s is named in the plan, without its value", async (kind, value) => {
    const cwd = temporaryProject({ ...PROJECT, "src/client.ts": `export const token = "${value}";` });
    const events: DeployEvent[] = [];

    const findings = checkContext(await packed(cwd), (event) => events.push(event));

    expect(findings).toEqual([
      expect.objectContaining({
        level: "warning",
        message: expect.stringContaining(`src/client.ts seems to contain ${kind}`),
      }),
    ]);
    expect(JSON.stringify([findings, events])).not.toContain(value);
  });

  it.each([
    "-----BEGIN PRIVATE KEY-----",
    'if (text.startsWith("-----BEGIN RSA PRIVATE KEY-----")) throw new Error("no keys here, please");',
    "/-----BEGIN (EC )?PRIVATE KEY-----/",
    "-----BEGIN PUBLIC KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-learn is a library, task-list a word",
    `sha512-${"A".repeat(86)}==`,
  ])("%j is not a secret", async (text) => {
    const context = await packed(temporaryProject({ ...PROJECT, "src/text.ts": text }));

    expect(context.suspects).toEqual([]);
  });
});

describe("logins in the settings of an installation", () => {
  it.each([
    [
      ".npmrc",
      "registry=https://npm.example/\n//npm.example/:_authToken=planted\nemail=a@b.c\n_password=planted\n",
      "registry=https://npm.example/\nemail=a@b.c\n",
    ],
    ["pkg/.npmrc", "@x:registry=https://me:planted@npm.example/\nfund=false\n", "fund=false\n"],
    [
      ".yarnrc",
      '"//npm.example/:_authToken" planted\nregistry "https://npm.example"\n',
      'registry "https://npm.example"\n',
    ],
  ])("are removed from %s", async (path, text, clean) => {
    const context = await packed(temporaryProject({ ...PROJECT, [path]: text }));

    const entry = context.files.find((file) => file.path === path);

    expect((await bytesOf(entry?.content() ?? [])).toString()).toBe(clean);
  });

  it("are removed from .yarnrc.yml, at any depth", async () => {
    const text = `nodeLinker: node-modules
npmAuthToken: planted-one
npmScopes:
  x: {npmRegistryServer: "https://npm.example", npmAuthIdent: "planted:two"}
npmRegistries:
  //npm.example:
    npmAuthToken: >-
      planted-three
`;
    const context = await packed(temporaryProject({ ...PROJECT, ".yarnrc.yml": text }));
    const tar = await bytesOf(context.tar());

    expect(tar.includes("planted")).toBe(false);
    expect(tar.includes("npmRegistryServer")).toBe(true);
    expect(tarNames(tar)).toContain(".yarnrc.yml");
  });
});
