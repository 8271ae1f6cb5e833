import { describe, expect, it } from "vitest";
import { wantedExpiry } from "../../src/deploy/expiry.ts";
import { svc } from "./_cli.ts";
import { stage, writeAll } from "./_fixture.ts";

const SETTINGS = `platform: memory
name: hello
environments:
  prod: {}
  preview-*: { expires: 7d }
`;

const HOUR = 3_600_000;
const ahead = (hours: number) => new Date(Date.now() + hours * HOUR).toISOString();

/** A project with a release of prod, and of two previews, one of which is over its time. */
async function openProject() {
  const at = await stage({ predictable: true });
  writeAll(at.cwd, { "deploy.yaml": SETTINGS });
  await svc(at, "up --env prod --yes");
  await svc(at, "up --env preview-a --yes");
  await svc(at, "up --env preview-b --yes");
  const expire = (service: string, when: string) =>
    at.world.change((world) => {
      const env = world.services[service]?.revisions.at(-1)?.env as Record<string, string>;
      env.SVC_EXPIRES = when;
    });
  expire("hello-preview-a", ahead(-1));
  return { at, expire, services: () => Object.keys(at.world.read().services).sort() };
}

describe("environments of a project", () => {
  it("are listed as the platform knows them, from any checkout, with what is over its time", async () => {
    const { at } = await openProject();
    const clone = await stage();
    writeAll(clone.cwd, { "deploy.yaml": "platform: memory\nname: hello\n" });
    const elsewhere = { ...clone, platform: at.platform };

    const { out, code } = await svc(elsewhere, "list");
    const document = JSON.parse((await svc(elsewhere, "list --json")).out);
    const other = await svc({ ...clone, platform: clone.platform }, "list");

    expect(code).toBe(0);
    expect(out).toMatch(/ENVIRONMENT +HEALTH +IMAGE +SINCE +EXPIRES +URL/);
    expect(out).toMatch(/preview-a +healthy +\w{12} +[\d-]+ [\d:]+ +[\d-]+ [\d:]+ \(over\)/);
    expect(out).toMatch(/prod +healthy .* never /);
    expect(document.environments.map(({ environment }: { environment: string }) => environment)).toEqual([
      "preview-a",
      "preview-b",
      "prod",
    ]);
    expect(document.environments[2]).toMatchObject({ expires: null, health: "healthy" });
    expect(other.out).toContain("No environment of hello runs on memory");
  });

  it("that are over their time are removed, and no other", async () => {
    const { at, services } = await openProject();

    const asked = await svc(at, "down --expired");
    const done = await svc(at, "down --expired --yes");
    const again = await svc(at, "down --expired --yes --json");

    expect(asked).toMatchObject({ code: 2, err: expect.stringContaining("Add --yes") });
    expect(done, done.err).toMatchObject({ code: 0, out: "Removed: preview-a" });
    expect(services()).toEqual(["hello-preview-b", "hello-prod"]);
    expect(JSON.parse(again.out)).toEqual({ success: true, removed: [], failed: [] });
  });

  it("that are renewed while the others are removed stay", async () => {
    const { at, expire, services } = await openProject();
    const renewing = {
      ...at,
      platform: {
        ...at.platform,
        async connect(...args: Parameters<typeof at.platform.connect>) {
          const session = await at.platform.connect(...args);
          const list = session.listSecrets;
          // Only a removal reads the secrets: after the list of all.
          session.listSecrets = async () => {
            expire("hello-preview-a", ahead(24));
            return list();
          };
          return session;
        },
      },
    };

    const { code, err } = await svc(renewing, "down --expired --yes");

    expect(code, err).toBe(0);
    expect(err).toContain("preview-a has been renewed");
    expect(services()).toContain("hello-preview-a");
  });

  it("that cannot be removed do not keep the others, and end the command with 1", async () => {
    const { at, expire, services } = await openProject();
    expire("hello-preview-b", ahead(-1));
    at.world.change((world) =>
      Object.assign(world, { jobs: { "hello-preview-a": [{ job_id: "j", status: "awaiting" }] } }),
    );

    const { code, err } = await svc(at, "down --expired --yes");
    const lost = await svc(at, "down --expired --yes --accept-data-loss");

    expect(code).toBe(1);
    expect(err).toMatch(/preview-a: /);
    expect(lost.code, lost.err).toBe(0);
    expect(services()).toEqual(["hello-prod"]);
  });

  it("are refused by name where a platform cannot list them", async () => {
    const at = await stage();
    writeAll(at.cwd, { "deploy.yaml": SETTINGS });
    const { connect } = at.platform;
    const blind = {
      ...at.platform,
      connect: async (...args: Parameters<typeof connect>) => ({
        ...(await connect(...args)),
        environments: undefined,
      }),
    };

    const listed = await svc({ ...at, platform: blind as never }, "list");

    expect(listed).toMatchObject({ code: 2, err: expect.stringMatching(/Platform memory cannot list/) });
  });

  it("keep their expiry: a deployment without changes stays one, and without the option it is kept", async () => {
    const { at } = await openProject();

    const idle = await svc(at, "plan --env preview-b --detailed-exitcode");
    const renewed = await svc(at, "plan --env preview-a --detailed-exitcode");
    const taken = await svc(at, "plan --env preview-b --expires never --detailed-exitcode");
    const bad = await svc(at, "plan --env preview-b --expires soon");

    expect([idle.code, renewed.code, taken.code, bad.code]).toEqual([0, 2, 2, 2]);
    expect(taken.out).toMatch(/- env\.SVC_EXPIRES/);
    expect(bad.err).toMatch(/--expires must be a time such as 7d/);
  });

  it.each([
    ["nothing typed, nothing set", undefined, undefined, undefined],
    ["nothing typed", undefined, "2026-05-02T00:00:00.000Z", "2026-05-02T00:00:00.000Z"],
    ["a new one, in full hours", "2d", undefined, "2026-05-03T11:00:00.000Z"],
    ["more than half is left", "2d", "2026-05-02T12:00:00.000Z", "2026-05-02T12:00:00.000Z"],
    ["less than half is left", "2d", "2026-05-02T09:00:00.000Z", "2026-05-03T11:00:00.000Z"],
    ["a shorter one", "1h", "2026-05-20T09:00:00.000Z", "2026-05-01T12:00:00.000Z"],
    ["never", "never", "2026-05-02T09:00:00.000Z", undefined],
  ])("the mark of a release: %s", (_, typed, before, expected) => {
    const live = before === undefined ? undefined : { env: { SVC_EXPIRES: before } };

    expect(wantedExpiry(typed, live, new Date("2026-05-01T10:30:00Z"))).toBe(expected);
  });
});
