import { describe, expect, it } from "vitest";
import { DeployError } from "../../src/deploy/errors.ts";
import type { Platform } from "../../src/deploy/platform.ts";
import { svc } from "./_cli.ts";
import { stage, writeAll } from "./_fixture.ts";

const UP = "up --platform memory --name hello --yes";

describe("svc deploy on the command line", () => {
  it("runs a whole life: plan, up, plan, status, logs, rollback, down", async () => {
    const at = await stage({ predictable: true });

    const planned = await svc(at, "plan --platform memory --name hello --detailed-exitcode");
    const first = await svc(at, `${UP} --generate-api-key`);
    const idle = await svc(at, "plan --platform memory --name hello --detailed-exitcode");
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {LOG_LEVEL: debug}" });
    const changed = await svc(at, "plan --platform memory --name hello");
    const second = await svc(at, UP);
    const seen = await svc(at, "status --platform memory --name hello");
    const logs = await svc(at, "logs --platform memory --name hello");
    const back = await svc(at, "rollback --platform memory --name hello --yes");
    const gone = await svc(at, "down --platform memory --name hello --yes");
    const again = await svc(at, "down --platform memory --name hello --yes");

    expect([planned.code, first.code, idle.code, changed.code, second.code]).toEqual([2, 0, 0, 0, 0]);
    expect([seen.code, logs.code, back.code, gone.code, again.code]).toEqual([0, 0, 0, 0, 0]);
    expect(planned.out).toMatch(/CREATE {2}service {2}hello-dev/);
    expect(first.out).toMatch(/hello-dev is up and healthy/);
    expect(first.out).toMatch(new RegExp(`Admin +${at.base}/hello-dev/admin/`));
    expect(first.out).toMatch(/Next +svc deploy logs --platform memory --name hello/);
    expect(idle.out).toMatch(/Nothing to do/);
    expect(changed.out).toMatch(/UPDATE {2}service/);
    expect(changed.out).toMatch(/\+ env\.LOG_LEVEL: debug/);
    expect(seen.out).toMatch(/Health +healthy/);
    expect(seen.out).toMatch(/Instances +1/);
    expect(logs.out).toBe("line one\nline two");
    expect(back.out).toMatch(/Revision r1 is serving again/);
    expect(gone.out).toMatch(/was removed/);
    expect(again.out).toMatch(/nothing to remove/);
  });

  it("says what a removal deletes beside the service, and proposes the options that use what it has left", async () => {
    const at = await stage({ predictable: true, beside: true });
    await svc(at, `${UP} --generate-api-key`);

    const serving = await svc(at, "status --platform memory --name hello --json");
    const removed = await svc(at, "down --platform memory --name hello --yes --json");
    const gone = await svc(at, "status --platform memory --name hello");

    expect(serving.code).toBe(0);
    expect(JSON.parse(removed.out)).toMatchObject({
      removed: expect.arrayContaining(["service hello-dev", "role hello-dev-role"]),
      left: [{ resource_type: "volume", resource_name: "hello-dev-data" }],
    });
    expect(gone.err).toMatch(/Deploy it: svc deploy up .*--max-instances 2/);
    expect(gone.err).toContain("The volume hello-dev-data stays, with its jobs");
    expect(gone.err).not.toContain("hello-dev-role");
  });

  it.each([
    ["2026-11-28T15:00:00.000Z", /Last backup +2026-11-28T15:00:00.000Z/],
    ["never", /Last backup +none yet/],
    ["", /^(?!.*Last backup)/s],
  ])("status says when the last backup was made, if any are (%s)", async (last, text) => {
    const at = await stage({ predictable: true });
    writeAll(at.cwd, {
      ".deployment/config.yaml": `environment: {LOG_LEVEL: debug${last && `, LAST_BACKUP: "${last}"`}}`,
    });
    await svc(at, `${UP} --generate-api-key`);

    const seen = await svc(at, "status --platform memory --name hello");

    expect(seen.out).toMatch(/Health +healthy/);
    expect(seen.out).toMatch(text);
  });

  it.each(["plan", "up", "status", "doctor", "logs", "rollback", "down --yes"])(
    "%s --json prints one document and nothing else",
    async (command) => {
      const at = await stage({ predictable: true });
      await svc(at, UP);
      writeAll(at.cwd, { ".deployment/config.yaml": "environment: {A: b}" });
      await svc(at, UP);

      const { out, err, code } = await svc(at, `${command} --platform memory --name hello --json`);

      expect(code).toBe(0);
      expect(JSON.parse(out)).toBeTypeOf("object");
      expect(err).toBe("");
    },
  );

  it.each([{}, { interactive: true, json: true }])(
    "down removes nothing if it cannot ask and --yes is missing: %j",
    async ({ json, ...some }: { json?: boolean; interactive?: boolean }) => {
      const at = await stage({ predictable: true });
      await svc(at, UP);
      const before = at.world.read().calls;

      const refused = await svc(at, `down --platform memory --name hello${json ? " --json" : ""}`, some);
      const local = await svc(at, `local --stop --name hello${json ? " --json" : ""}`, some);

      expect([refused.code, local.code]).toEqual([2, 2]);
      expect(refused.out + refused.err).toMatch(
        /deletes permanently, and there is no terminal to confirm it/,
      );
      expect(local.out + local.err).toMatch(/Add --yes/);
      expect(at.world.read().calls).toEqual(before);
    },
  );

  it("open jobs end the command with 7, and the document lists them", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });
    await svc(at, `${UP} --generate-api-key`);
    at.world.change((world) =>
      Object.assign(world, { jobs: { "hello-dev": [{ job_id: "j1", status: "awaiting" }] } }),
    );
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {A: b}" });

    const planned = await svc(at, "plan --platform memory --name hello");
    const stopped = await svc(at, `${UP} --json`);
    const lost = await svc(at, `${UP} --json --accept-data-loss`);

    const work = { known: true, jobs: [{ id: "j1", status: "awaiting" }], total: 1 };
    expect(planned.err).toMatch(
      /1 question is open on "hello-dev"; svc deploy up will require --accept-data-loss/,
    );
    expect(stopped.code).toBe(7);
    expect(JSON.parse(stopped.out)).toMatchObject({
      success: false,
      status: "open_work",
      error_details: { exit_code: 7, open_work: work },
    });
    expect(JSON.parse(lost.out)).toMatchObject({ success: true, open_work: work });
  });

  it("a failure is a document too, with the exit code, the outcome and what to do", async () => {
    const at = await stage({ predictable: true });
    await svc(at, UP);
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {SICK: '500'}" });
    at.world.change((world) => {
      world.faults.rollout = "crash";
    });

    const { code, out } = await svc(at, `${UP} --json`);

    expect(code).toBe(3);
    expect(JSON.parse(out)).toMatchObject({
      success: false,
      status: "rolled_back",
      error_message: 'Revision of "hello-dev" crashed',
      error_details: {
        exit_code: 3,
        provider: "container exited with code 1",
        outcome: "Rolled back: revision r1 is serving again",
        log: ["Error: Cannot find module './controller.js'"],
      },
    });
  });

  it("a failure as text has the log, the provider's message, the outcome and what is next", async () => {
    const at = await stage({ predictable: true });
    at.world.change((world) => {
      world.faults["service.create"] = "fail";
    });

    const { code, err } = await svc(at, UP);

    expect(code).toBe(1);
    expect(err).toMatch(
      /Error: service\.create was refused\n {2}MEMORY_403: not allowed\n {2}Now: Nothing was released/,
    );
    expect(err).toMatch(/Log: \.deployment\/logs\/deploy-/);
  });

  it("keeps values as they were typed", async () => {
    const at = await stage({ predictable: true });

    const { code, out } = await svc(
      at,
      "plan --platform memory --name hello --image 1.10 --project-id 012345678901 --region 1e5 --json",
    );

    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      target_image: "memory.example/hello-dev:1.10",
      project_id: "012345678901",
      region: "1e5",
    });
  });

  it.each([
    ["up", /Option --platform is missing\. Set --platform to one of: memory\./],
    ["up --platform memry", /Unknown platform "memry"\. Did you mean memory\?/],
    [
      "up --platform memory --max-instance 2",
      /Unknown option --max-instance\. Did you mean --max-instances\?/,
    ],
    ["up --platform memory --env Production", /Option --env must be at most 32 lower-case letters/],
    ["up --platform memory --port x", /Option --port must be a number/],
    ["up --platform memory --max-instances 1001", /--max-instances/],
    ["upp --platform memory", /Unknown command "upp"\. Did you mean "svc deploy up"\?/],
  ])("%s: a wrong command line ends with 2 and a hint", async (line, message) => {
    const at = await stage();

    const { code, err } = await svc(at, line);

    expect(err).toMatch(message);
    expect(code).toBe(2);
  });

  it.each([
    "plan --json",
    "up --platform memry --json",
    "local --port 0 --json",
    "status --frob --json",
    "local --controller-file none.ts --docker-files-only --json",
    "doctor --platform memory --json",
    "logs --platform memory --json",
    "rollback --platform memory --json",
    "down --platform memory --name hello --json",
    "clean --json",
  ])("%s: prints one document and nothing else", async (line) => {
    const at = await stage();

    const { code, out } = await svc(at, line);

    const document = JSON.parse(out) as { success?: boolean; error_details?: { exit_code: number } };
    expect(document.error_details?.exit_code ?? code).toBe(code);
    if (code !== 0) expect(document.success ?? false).toBe(false);
  });

  it("doctor reports a platform that cannot be reached, and still reports the rest", async () => {
    const at = await stage();
    const closed = {
      ...at.platform,
      connect() {
        throw new DeployError("preflight", "No login was found", { fix: "memory auth login" });
      },
    };

    const { code, out } = await svc(at, "doctor --platform memory", {
      platforms: { memory: async () => ({ default: closed as Platform<never> }) },
    });

    expect(code).toBe(5);
    expect(out).toMatch(/✓ Node/);
    expect(out).toMatch(/✓ Project +npm, starts src\/controller\.ts/);
    expect(out).toMatch(/✗ memory +No login was found\n +→ memory auth login/);
  });

  it("the help without a platform names the platforms, and the platform of each option", async () => {
    const at = await stage();

    const { out } = await svc(at, "up --help");

    expect(out).toMatch(/--platform <name> +where to deploy: memory, or a platform/);
    expect(out).toMatch(/--max-instances <number> +memory: Instances at most \(default: 1\)/);
  });

  it("the help names a platform with two names once", async () => {
    const at = await stage();
    const memory = async () => ({ default: at.platform as Platform<never> });

    const { out } = await svc(at, "up --help", { platforms: { memory, "other-name": async () => memory() } });

    expect(out).toMatch(/--max-instances <number> +memory: Instances at most/);
  });

  it("the plan shows a value of several lines as one", async () => {
    const at = await stage({ predictable: true });
    const variable = (NOTE: string) =>
      writeAll(at.cwd, { "deploy.yaml": JSON.stringify({ variables: { NOTE } }) });
    variable("one line");
    await svc(at, UP);
    variable("first\nsecond");

    const { out } = await svc(at, "plan --platform memory --name hello");

    expect(out).toContain('env.NOTE: one line → "first\\nsecond"');
  });

  it.each(["plan", "plan --json", "up", "up --json"])(
    "%s shows no value of a variable that may be a secret: that becomes one, or is named or formed as one",
    async (command) => {
      const at = await stage({ predictable: true });
      const write = (settings: object) => writeAll(at.cwd, { "deploy.yaml": JSON.stringify(settings) });
      write({ variables: { LEGACY: "planted-one", GREETING: "one" } });
      await svc(at, UP);
      // As somebody has set them by hand.
      at.world.change(({ services }) =>
        Object.assign(services["hello-dev"]!.revisions[0]!.env, {
          ...{ MAIL_PASSWORD: "planted-two", MAIL: "smtp://agents:planted-three@mail.example" },
          OTHER: `ghp_${"Planted".repeat(6)}`,
        }),
      );
      const removed = { MAIL_PASSWORD: null, MAIL: null, OTHER: null };
      write({ variables: { ...removed, GREETING: "two" }, secrets: { LEGACY: null } });

      const { out, err } = await svc(at, `${command} --platform memory --name hello`, {
        env: { PATH: process.env.PATH, LEGACY: "another-value" },
      });

      expect(out).toContain("MAIL_PASSWORD");
      expect(out + err).not.toMatch(/planted|another-value/i);
      if (command === "plan") {
        expect(out).toContain("- env.MAIL_PASSWORD: set");
        expect(out).toContain("- env.LEGACY: set");
        expect(out).toContain("~ env.GREETING: one → two");
      }
    },
  );

  it("two concurrent runs: the second ends with 6 and names the first", async () => {
    const at = await stage();
    const held = await at.open();
    await held.lock();

    const { code, err } = await svc(at, UP);

    expect(code).toBe(6);
    expect(err).toMatch(/in progress: .*process \d+/);
  });

  it("the help of a command shows the platform's own options with their limits", async () => {
    const at = await stage();

    const { out } = await svc(at, "up --platform memory --help");

    expect(out).toMatch(/--max-instances <number> +Instances at most \(default: 1\)/);
    expect(out).toMatch(/--no-rollback/);
    expect(out).toMatch(/\$ svc deploy up --platform/);
  });

  it("on a terminal the steps are a live line that is erased at the end", async () => {
    const at = await stage({ predictable: true });
    const drawn: string[] = [];
    const terminal = { write: (text: string) => void drawn.push(text), columns: () => 80 };

    const { err } = await svc(at, `${UP} --verbose`, { terminal });

    expect(drawn.join("")).toMatch(/Release/);
    expect(drawn.at(-1)).toBe("\r\u001b[2K");
    expect(err).toMatch(/✓.* Build the image/);
    expect(err).toMatch(/│ Step 1\/1 : FROM scratch/);
  });

  it("a new key is stored by the platform and printed only on request", async () => {
    const silent = await stage({ predictable: true });
    const asked = await stage({ predictable: true });

    const one = await svc(silent, `${UP} --generate-api-key`);
    const two = await svc(asked, `${UP} --generate-api-key --show-api-key`);

    const key = silent.world.read().secrets["hello-dev"]?.SERVICE_API_KEY?.value ?? "none";
    const shown = asked.world.read().secrets["hello-dev"]?.SERVICE_API_KEY?.value ?? "none";
    expect(one.out + one.err).not.toContain(key);
    expect(two.out).toContain(shown);
    expect(two.err).not.toContain(shown);
  });
});

describe("svc deploy exec", () => {
  it("ends with the exit code of the command that it runs in the container, and passes its words unchanged", async () => {
    const at = await stage();
    const asked: (readonly string[])[] = [];
    const connect: Platform<never>["connect"] = async (target, tools) => ({
      ...(await at.platform.connect(target, tools)),
      async enter(command) {
        asked.push(command);
        return [process.execPath, "-e", `process.exitCode = ${command.length}`];
      },
    });
    const platforms = { memory: async () => ({ default: { ...at.platform, connect } as Platform<never> }) };

    await svc(at, "up --platform memory --generate-api-key --yes");
    const shell = await svc(at, "exec --platform memory", { platforms });
    const command = await svc(at, "exec --platform memory -- node --version --env x", { platforms });
    const elsewhere = await svc(at, "exec --platform memory");

    expect(asked).toEqual([["sh"], ["node", "--version", "--env", "x"]]);
    expect([shell.code, command.code]).toEqual([1, 4]);
    expect(elsewhere).toMatchObject({
      code: 1,
      err: expect.stringContaining("svc cannot run commands in a container on platform memory"),
    });
  });
});
