// @long
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
import { PLATFORMS } from "../../src/cli/deploy/built-in.ts";
import { putComment } from "../../src/deploy/ci/comment.ts";
import { parseRemote } from "../../src/deploy/ci/repository.ts";
import { previewName } from "../../src/deploy/ci/short-name.ts";
import { planMarkdown } from "../../src/deploy/plan-markdown.ts";
import { deployPolicy } from "../../src/plugins/platforms/aws/policy.ts";
import { rolePermissions } from "../../src/plugins/platforms/cloud-run/permissions.ts";
import { openCodeHost } from "../platforms/flow/ci-runner.ts";
import { svc } from "./_cli.ts";
import { stage, writeAll } from "./_fixture.ts";

interface Job {
  readonly if: string;
  readonly permissions: Record<string, string>;
  readonly environment?: string;
  readonly concurrency: { group: string };
  readonly steps: { uses?: string; run?: string; env?: Record<string, string>; with?: object }[];
}

/** A project whose code host is `remote`, with this `deploy.yaml`. */
async function openProject(remote: string, settings: string) {
  const at = await stage();
  execFileSync("git", ["init", "--quiet", at.cwd]);
  execFileSync("git", ["-C", at.cwd, "remote", "add", "origin", remote]);
  writeAll(at.cwd, { "deploy.yaml": settings, "package-lock.json": '{ "packages": {} }' });
  return { at, ci: (line: string) => svc(at, `ci ${line}`, { platforms: PLATFORMS }) };
}

/** For a step that is no action. */
const CHECKED = `a/b@${"0".repeat(40)}`;

const CLOUD_RUN = `platform: cloud-run
name: hello
region: europe-west1
projectId: my-project
secrets:
  ERP_TOKEN:
  PAY_TOKEN: { env: PAY_LIVE }
  SIGNING_KEY: { file: ../signing.pem }
  MAIL_TOKEN: { command: op read op://team/mail/token }
environments:
  prod: {}
  preview-*: { projectId: my-previews }
`;

describe("svc deploy ci", () => {
  it("writes a workflow whose jobs have only the rights and secrets that they need", async () => {
    const { at, ci } = await openProject("git@github.com:acme/agents.git", CLOUD_RUN);

    const made = await ci("github");

    const text = readFileSync(join(at.cwd, ".github/workflows/deploy.yml"), "utf8");
    const { jobs, permissions } = parse(text) as { jobs: Record<string, Job>; permissions: object };
    expect(made).toMatchObject({ code: 0, err: "" });
    expect(permissions).toEqual({});
    expect(Object.keys(jobs)).toEqual(["plan", "deploy", "preview", "expired-previews", "remove-preview"]);
    for (const [name, { steps }] of Object.entries(jobs)) {
      const login = steps.find(({ uses }) => uses?.startsWith("google-github-actions/auth@"));
      const project = name.includes("preview") ? "my-previews" : "my-project";
      expect(login?.with).toMatchObject({ project_id: project });
      // Each action is pinned to a commit, each package to the lock file.
      for (const { uses = CHECKED } of steps) expect(uses).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40}$/);
      expect(steps.map(({ run }) => run)).toContain("npm ci --no-audit --no-fund --ignore-scripts");
    }
    expect(jobs.plan?.permissions).toEqual({
      contents: "read",
      "id-token": "write",
      "pull-requests": "write",
    });
    expect(JSON.stringify(jobs.plan)).not.toContain("secrets.");
    expect(jobs.plan?.if).toContain("github.event.pull_request.head.repo.full_name == github.repository");
    expect(jobs.deploy).toMatchObject({ environment: "prod", concurrency: { group: "svc-prod" } });
    expect(jobs.deploy?.steps.at(-1)?.env).toEqual({
      ERP_TOKEN: "$" + "{{ secrets.ERP_TOKEN }}",
      PAY_LIVE: "$" + "{{ secrets.PAY_LIVE }}",
    });
    // A branch's name is a value of the shell, never a part of its script.
    expect(jobs.preview?.steps.map(({ run }) => run).join()).not.toContain("github.");
    expect(jobs.preview?.steps.at(-1)?.env).toMatchObject({ SVC_BRANCH: "$" + "{{ github.head_ref }}" });
    expect(jobs.preview?.steps.at(-1)?.run).toContain('up --env "$SVC_ENV" --expires 7d');
    expect(jobs["expired-previews"]?.if).toBe("github.event_name == 'schedule'");
    expect(jobs["remove-preview"]?.if).toContain("github.event.action == 'closed'");
    expect(text).not.toMatch(/[&*]a\d/);
    // The tag of a commit is beside it, for people and for tools that update both.
    for (const line of text.split("\n").filter((one) => one.includes("uses:")))
      expect(line).toMatch(/@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it("gives jobs that only remove the key of the service, and no other secret", async () => {
    const { at, ci } = await openProject(
      "git@github.com:acme/agents.git",
      CLOUD_RUN.replace("  ERP_TOKEN:\n", "  ERP_TOKEN:\n  SERVICE_API_KEY: { env: PREVIEW_KEY }\n"),
    );

    await ci("github");

    const { jobs } = parse(readFileSync(join(at.cwd, ".github/workflows/deploy.yml"), "utf8")) as {
      jobs: Record<string, Job>;
    };
    const passed = (name: string) =>
      [...JSON.stringify(jobs[name]).matchAll(/secrets\.(\w+)/g)].map(([, secret]) => secret);
    expect(passed("remove-preview")).toEqual(["PREVIEW_KEY"]);
    expect(passed("expired-previews")).toEqual(["PREVIEW_KEY"]);
    expect(passed("preview")).toEqual(["ERP_TOKEN", "PREVIEW_KEY", "PAY_LIVE"]);
  });

  it.each(["github", "gitlab"])(
    "on %s, says that prod is refused while it is not decided where jobs are stored",
    async (provider) => {
      const { at, ci } = await openProject("git@github.com:acme/agents.git", CLOUD_RUN);
      const note = /The job that deploys prod is refused .* where jobs are stored; cloud-run wipes files/;
      const undecided = await ci(provider);
      for (const decision of ["store: file\n", "storage: create\n", "store: external\n"]) {
        writeAll(at.cwd, { "deploy.yaml": `${CLOUD_RUN}${decision}` });

        expect((await ci(provider)).out, decision).not.toMatch(note);
      }
      writeAll(at.cwd, { "deploy.yaml": CLOUD_RUN.replace("ERP_TOKEN", "SERVICE_DATABASE_URL") });
      const withDatabase = await ci(provider);
      writeAll(at.cwd, { "deploy.yaml": CLOUD_RUN });
      const dev = await ci(`${provider} --env dev`);

      expect(undecided.out).toMatch(note);
      expect(withDatabase.out).not.toMatch(note);
      expect(dev.out).not.toMatch(note);
    },
  );

  it.each(["github", "gitlab"])(
    "on %s, accepts the loss of open jobs for previews only",
    async (provider) => {
      const { at, ci } = await openProject("git@github.com:acme/agents.git", CLOUD_RUN);

      const { out } = await ci(provider);

      const file = provider === "github" ? ".github/workflows/deploy.yml" : ".gitlab-ci.yml";
      const commands = readFileSync(join(at.cwd, file), "utf8")
        .split("\n")
        .filter((line) => line.includes("svc deploy "));
      const accepting = commands.filter((line) => line.includes("--accept"));
      expect(out).toContain(file);
      expect(commands.some((line) => line.includes("up --env prod"))).toBe(true);
      expect(accepting.length).toBeGreaterThan(1);
      for (const line of accepting) expect(line).toMatch(/--env ("\$SVC_ENV"|preview-any)/);
    },
  );

  it("runs the scripts only of packages that have some by the lock file", async () => {
    const { at, ci } = await openProject("git@github.com:acme/agents.git", CLOUD_RUN);
    const packages = {
      "": { name: "hello" },
      "node_modules/quiet": {},
      "node_modules/better-sqlite3": { hasInstallScript: true },
      "node_modules/quiet/node_modules/@scope/native": { hasInstallScript: true },
    };
    writeAll(at.cwd, {
      "package-lock.json": JSON.stringify({ lockfileVersion: 3, packages }),
      "package.json": JSON.stringify({ name: "hello", type: "module", scripts: { postinstall: "generate" } }),
    });

    await ci("github");

    const { jobs } = parse(readFileSync(join(at.cwd, ".github/workflows/deploy.yml"), "utf8")) as {
      jobs: Record<string, Job>;
    };
    expect(jobs.deploy?.steps.flatMap(({ run }) => run ?? []).slice(0, 3)).toEqual([
      "npm ci --no-audit --no-fund --ignore-scripts",
      "npm rebuild @scope/native better-sqlite3",
      "npm run postinstall",
    ]);
  });

  it.each([
    ["cloud-run", "region: x\nprojectId: live\n", "projectId: previews"],
    ["aws-ecs-express", "region: us-east-1\nprojectId: '1'\n", "projectId: '2'"],
    ["do-app-platform", "region: fra\n", "region: nyc"],
    ["server", "host: me@live.example\n", "host: me@previews.example"],
  ])(
    "on %s, what previews sign in with never replaces what production does",
    async (platform, live, other) => {
      for (const provider of ["github", "gitlab"]) {
        const { at, ci } = await openProject(
          `git@${provider}.com:acme/agents.git`,
          `platform: ${platform}\nname: hello\n${live}environments:\n  prod:\n  preview-*: { ${other} }\n`,
        );

        const { out, code, err } = await ci(provider);

        const file = provider === "github" ? ".github/workflows/deploy.yml" : ".gitlab-ci.yml";
        const text = readFileSync(join(at.cwd, file), "utf8");
        const set = [...out.matchAll(/^(?:gh|glab) (?:variable|secret) set (\S+)/gm)].map(
          ([, name]) => name!,
        );
        expect(code, err).toBe(0);
        expect(set.length).toBeGreaterThan(1);
        expect(new Set(set).size).toBe(set.length);
        for (const name of set) expect(text).toMatch(new RegExp(`${name}\\b`));
        const { plan, deploy, preview } = (provider === "github" ? parse(text).jobs : parse(text)) as Record<
          string,
          object
        >;
        const used = (job: object | undefined) =>
          set.filter((name) => new RegExp(`${name}\\b`).test(JSON.stringify(job)));
        expect(used(deploy).length).toBeGreaterThan(0);
        expect(used(deploy)).toEqual(expect.arrayContaining(used(plan)));
        expect(used(preview).filter((name) => used(deploy).includes(name))).toEqual([]);
        // A key's file is made, used and removed for each.
        expect(out.split("\n").filter((line) => line.startsWith("ssh-keygen -t"))).toHaveLength(
          platform === "server" ? 2 : 0,
        );
      }
    },
  );

  it("prints the lines that give each job its rights, for this repository only", async () => {
    const { ci } = await openProject("https://user:planted@github.com/acme/agents", CLOUD_RUN);

    const { out } = await ci("github");

    const lines = out.split("\n");
    const roles = lines.filter((line) => line.startsWith("gcloud iam roles create"));
    expect(out).toContain(`--attribute-condition "assertion.repository == 'acme/agents'"`);
    for (const subject of ["pull_request", "environment:prod", "environment:preview"])
      expect(out).toContain(`$POOL/subject/repo:acme/agents:${subject}"`);
    expect(roles.find((line) => line.includes("svcPlan"))).not.toMatch(
      /create,|update|delete|setIamPolicy|access/,
    );
    expect(out).toContain("environments/prod/deployment-branch-policies --raw-field name=main");
    expect(out).toMatch(/Secret SIGNING_KEY comes from a file/);
    expect(out).toMatch(/Secret MAIL_TOKEN comes from a command/);
    expect(out).toMatch(/PROJECT=my-project[\s\S]*PROJECT=my-previews[\s\S]*workload-identity-pools create/);
    expect(out).not.toContain("planted");
  });

  it("writes a pipeline for GitLab, and a role per right whose trust and rights are limited", async () => {
    const { at, ci } = await openProject(
      "ssh://git@gitlab.example:2222/team/sub/agents.git",
      "platform: aws-ecs-express\nname: hello\nregion: eu-central-1\nenvironments:\n  prod:\n  preview-*:\n",
    );

    const { out, code, err } = await ci("gitlab --main-branch trunk");

    const file = parse(readFileSync(join(at.cwd, ".gitlab-ci.yml"), "utf8"));
    const documents = [...out.matchAll(/<<JSON\n(.*)\nJSON/g)].map(([, text]) => JSON.parse(text ?? ""));
    const trusts = documents.filter(({ Statement }) => Statement[0].Principal);
    const [reads, deploys, previews] = documents.filter(({ Statement }) => !Statement[0].Principal);
    expect(code, err).toBe(0);
    expect(file.deploy).toMatchObject({
      resource_group: "svc-prod",
      id_tokens: { SVC_ID_TOKEN: { aud: "$CI_SERVER_URL" } },
      rules: [{ if: expect.stringContaining('$CI_COMMIT_BRANCH == "trunk"') }],
    });
    expect(file.preview.environment).toMatchObject({ on_stop: "remove-preview", auto_stop_in: "7 days" });
    expect(file["remove-preview"].environment.action).toBe("stop");
    expect(trusts.map(({ Statement }) => Statement[0].Condition)).toEqual([
      expect.objectContaining({
        StringLike: { "gitlab.example:sub": "project_path:team/sub/agents:ref_type:branch:ref:*" },
      }),
      {
        StringEquals: {
          "gitlab.example:aud": "https://gitlab.example",
          "gitlab.example:sub": "project_path:team/sub/agents:ref_type:branch:ref:trunk",
        },
      },
      expect.objectContaining({ StringLike: expect.anything() }),
    ]);
    expect(JSON.stringify(reads)).not.toMatch(
      /:(Create|Put|Delete|Update|Pass|Attach|Detach|Tag|Stop|GetSecretValue)/,
    );
    expect(JSON.stringify(deploys)).toContain("repository/hello-prod*");
    expect(JSON.stringify(previews)).toContain("secret:hello-preview-*");
    expect(JSON.stringify(previews)).not.toContain("hello-prod");
    // A role that can change its own policy would have every right.
    const resource = /role\/([^"]*)\*"/.exec(JSON.stringify(deploys))?.[1] ?? "none";
    expect(out).toContain("--role-name pipeline.hello.deploy");
    expect("pipeline.hello.deploy".startsWith(resource)).toBe(false);
  });

  it.each([
    ["do-app-platform", "", /no federated login/, "secrets.DIGITALOCEAN_ACCESS_TOKEN__HELLO__PROD"],
    [
      "server",
      "host: me@vm.example\n",
      /ssh has no federated login/,
      "secrets.SVC_SSH_KNOWN_HOSTS__HELLO__PROD",
    ],
  ])("says that %s has no federation, and passes a secret", async (platform, more, note, secret) => {
    const { at, ci } = await openProject(
      "git@github.com:acme/agents.git",
      `platform: ${platform}\nname: hello\n${more}`,
    );

    const { out, code } = await ci("github --env prod");

    const text = readFileSync(join(at.cwd, ".github/workflows/deploy.yml"), "utf8");
    expect(code).toBe(0);
    expect(out).toMatch(note);
    expect(out).toMatch(/No previews: list an environment "preview-\*"/);
    expect(text).toContain(secret);
    expect(text).not.toContain("id-token");
    expect(Object.keys(parse(text).jobs)).toEqual(["plan", "deploy"]);
  });

  it("keeps a file that somebody wrote or edited", async () => {
    const { at, ci } = await openProject("git@github.com:acme/agents.git", CLOUD_RUN);
    const path = ".github/workflows/deploy.yml";
    const read = () => readFileSync(join(at.cwd, path), "utf8");

    await ci("github");
    const idle = await ci("github");
    const written = read();
    writeAll(at.cwd, { [path]: written.replace("npm ci", "npm ci --ignore-scripts") });
    const kept = await ci("github");
    const edited = read();
    writeAll(at.cwd, { ".gitlab-ci.yml": "test: { script: [npm test] }\n" });
    const own = await ci("gitlab --json");
    const replaced = await ci("github --overwrite-files");

    expect(idle.out).toContain("is up to date");
    expect(kept.out).toContain("was not changed: it was edited, or is your own");
    expect(edited).toContain("--ignore-scripts");
    expect(JSON.parse(own.out)).toMatchObject({ outcome: "kept", file: ".gitlab-ci.yml" });
    expect(replaced.out).toContain(`Wrote ${path}`);
    expect(read()).toBe(written);
  });

  it.each([
    ["no remote", "", CLOUD_RUN, /git has no usable remote called origin/],
    ["no name", "git@github.com:a/b", "platform: cloud-run\nregion: x\n", /deploy.yaml has no name/],
    ["no region", "git@github.com:a/b", "platform: cloud-run\nname: a\n", /deploy.yaml has no region/],
    [
      "no project",
      "git@github.com:a/b",
      "platform: cloud-run\nname: a\nregion: x\n",
      /project of Google Cloud is unknown/,
    ],
  ])("writes nothing with %s", async (_, remote, settings, message) => {
    const { at, ci } = await openProject(remote || "/srv/agents.git", settings);

    const { code, err } = await ci("github");

    expect(code).toBe(2);
    expect(err).toMatch(message);
    expect(() => readFileSync(join(at.cwd, ".github/workflows/deploy.yml"))).toThrow();
  });

  it("names the preview of a branch: short, and another one for each branch", async () => {
    const { ci } = await openProject("git@github.com:a/b.git", CLOUD_RUN);
    const branches = [
      "login",
      "feat/login",
      "feat-login",
      "a-very-long-branch-one",
      "a-very-long-branch-two",
    ];

    const names = [...branches, "1234", "–"].map(previewName);

    expect((await ci("preview feat/login")).out).toBe(previewName("feat/login"));
    expect(names[0]).toBe("preview-login");
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(name).toMatch(/^preview-[a-z][a-z0-9-]{0,14}[a-z0-9]$/);
  });

  it.each([
    ["git@github.com:acme/agents.git", "github.com", "acme/agents"],
    ["https://token@gitlab.com/a/b/c", "gitlab.com", "a/b/c"],
    ["ssh://git@host.example:2222/a/b.git", "host.example", "a/b"],
  ])("reads the remote %s", (url, host, path) => {
    expect(parseRemote(url)).toEqual({ host, path });
    expect(parseRemote("git@github.com:a/b'; rm -rf ~; '")).toBeUndefined();
  });
});

describe("rights of a pipeline", () => {
  const docs = readFileSync(new URL("../../docs/deploy-clouds.md", import.meta.url), "utf8");

  it("are those of the documented policy of AWS", () => {
    const documented = JSON.parse(/```json\n(\{\n {2}"Version"[\s\S]*?)\n```/.exec(docs)?.[1] ?? "");
    const runner = JSON.parse(
      /for `apprunner.amazonaws.com`:\n\n```json\n([\s\S]*?)\n```/.exec(docs)?.[1] ?? "",
    );
    const other = deployPolicy("123456789012", "hello-*", "apprunner").Statement;

    const all = deployPolicy("123456789012", "hello-*", "ecs", { withBucket: true }).Statement;

    expect(documented.Statement).toEqual(all);
    expect(other).toContainEqual(runner);
  });

  it("are those of the documented role of Google Cloud", () => {
    const [, role = ""] = /includedPermissions:\n([\s\S]*?)```/.exec(docs) ?? [];
    const documented = [...role.matchAll(/^ {2}- ([\w.]+)/gm)].map(([, name]) => name).sort();

    expect(rolePermissions({ storage: "create", flags: { useCloudBuild: true } })).toEqual(documented);
  });
});

describe("the plan as a comment", () => {
  const { signal } = new AbortController();
  const env = {
    GITLAB_CI: "true",
    CI_PROJECT_ID: "42",
    CI_MERGE_REQUEST_IID: "7",
    SVC_COMMENT_TOKEN: "a-token",
  };

  it("is updated on GitLab too, however many other comments there are", async () => {
    const host = await openCodeHost("a-token");
    onTestFinished(() => host.close());
    for (let id = 1; id <= 230; id++) host.comments.push({ id, body: `comment ${id}` });
    const tools = { env: { ...env, CI_API_V4_URL: `${host.url}/api/v4` }, fetch, signal };

    const first = await putComment({ mark: "plan", text: "one" }, tools);
    const second = await putComment({ mark: "plan", text: "two" }, tools);
    const other = await putComment({ mark: "plan b", text: "three" }, tools);

    expect([first, second, other]).toEqual(["written", "updated", "written"]);
    expect(host.comments.slice(230).map(({ body }) => body)).toEqual([
      "<!-- plan -->\ntwo",
      "<!-- plan b -->\nthree",
    ]);
    expect(host.calls.at(-1)).toBe("POST /api/v4/projects/42/merge_requests/7/notes");
  });

  it("says why it is not written, and never with the token", async () => {
    const host = await openCodeHost("another-token");
    onTestFinished(() => host.close());
    const tools = { env: { ...env, CI_API_V4_URL: host.url }, fetch, signal };

    const refused = await putComment({ mark: "plan", text: "one" }, tools).catch((error: unknown) => error);
    const elsewhere = { env: { GITLAB_CI: "true" }, fetch, signal };
    const none = await putComment({ mark: "plan", text: "x" }, elsewhere);

    expect(refused).toMatchObject({ detail: expect.stringMatching(/notes: 401/), code: "failed" });
    expect(JSON.stringify(refused)).not.toContain("a-token");
    expect(none).toEqual({ skipped: "this job is not about a merge request" });
    await expect(putComment({ mark: "plan", text: "x" }, { env: {}, fetch, signal })).rejects.toThrow(
      /--comment works/,
    );
  });

  it("names the code host that could not be reached", async () => {
    const gone = await openCodeHost("a-token");
    await gone.close();
    const tools = { env: { ...env, CI_API_V4_URL: gone.url }, fetch, signal };

    const failed = putComment({ mark: "plan", text: "one" }, tools);

    await expect(failed).rejects.toMatchObject({
      code: "unreachable",
      message: `${new URL(gone.url).host} could not be reached: it refused the connection`,
    });
  });

  it("is a short table in which nothing of the plan is read as Markdown", async () => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, {
      "deploy.yaml":
        "platform: memory\nname: hello\nvariables:\n  A: '@all `x` | <b>'\nsecrets:\n  ERP_TOKEN:\n",
    });
    await svc(at, "up --yes", { env: { PATH: process.env.PATH, ERP_TOKEN: "planted-value" } });
    writeAll(at.cwd, {
      "deploy.yaml": "platform: memory\nname: hello\nvariables:\n  A: '@none `x` | <i>'\nsecrets:\n  NEW:\n",
    });

    const { out, code, err } = await svc(at, "plan --markdown --read-only");
    const strict = await svc(at, "plan --markdown");

    expect(code, err).toBe(0);
    expect(out).toContain("### Plan for `hello-dev` on memory (here-1)");
    expect(out).toMatch(
      /\| \*\*UPDATE\*\* \| service \| `hello-dev` \| .*`env\.A: @all 'x' \\\| <b> → @none/,
    );
    expect(out).toMatch(/\| \*\*CREATE\*\* \| secret \| `NEW` \|/);
    expect(out).not.toContain("planted-value");
    expect(strict).toMatchObject({ code: 2, err: expect.stringContaining("Secret NEW has no value") });
    const action = { action_type: "create", resource_type: "service", cost_estimate: null, metadata: null };
    const plan = {
      ...{ service_name: "a", platform: "p", region: "r", project_id: null },
      actions: [{ ...action, resource_name: "x", description: "# [a](b) <img> @all\n| b" }],
    };
    const text = planMarkdown(plan as never, { changes: true, notes: ["*note*"] });
    expect(text).not.toMatch(/<img|@all|\]\(|\n# |\*note/);
  });
});
