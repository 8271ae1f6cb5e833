// @long
import { afterEach, describe, expect, it } from "vitest";
import { CONTEXT } from "../../src/deploy/config.ts";
import { up } from "../../src/deploy/up.ts";
import { FLOWS } from "./flow/clouds.ts";
import { openSite, type Site } from "./flow/site.ts";
import { type RunningServer, serveHttp } from "./http-server.ts";

let at: Site;
let registry: RunningServer | undefined;
/** What the last plan was to change; undefined until it is shown. */
let planned: string[] | undefined;
afterEach(async () => {
  await registry?.close();
  registry = undefined;
  await at.close();
});

/** What a digest is: an image for one processor, or for several; nothing else is there. */
type Holds = Readonly<Record<string, readonly string[]>>;

/** A registry that gives a token to who has the login, and answers for no other. */
async function serveRegistry(holds: Holds, [user, password]: readonly [string, string]): Promise<void> {
  const login = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  registry = await serveHttp(async ({ path, headers, query }) => {
    if (path === "/token") {
      const isRight =
        headers.authorization === login && /^repository:.+:pull$/.test(query.get("scope") ?? "");
      return isRight ? { status: 200, body: { token: "pull-token" } } : { status: 401, body: {} };
    }
    if (headers.authorization !== "Bearer pull-token") {
      const challenge = `Bearer realm="${registry?.url}/token",service="the-registry"`;
      return { status: 401, body: {}, headers: { "www-authenticate": challenge } };
    }
    const digest = path.split("/").at(-1) ?? "";
    const machines = holds[digest];
    if (path.includes("/blobs/"))
      return { status: 200, body: { os: "linux", architecture: digest.replace("sha256:config-", "") } };
    if (machines === undefined) return { status: 404, body: { errors: [{ code: "MANIFEST_UNKNOWN" }] } };
    const [only] = machines;
    if (machines.length === 1) return { status: 200, body: { config: { digest: `sha256:config-${only}` } } };
    return {
      status: 200,
      body: { manifests: machines.map((architecture) => ({ platform: { os: "linux", architecture } })) },
    };
  });
  answerAt(() => registry?.url);
}

/** Where the registries of all clouds are. */
function answerAt(url: () => string | undefined): void {
  const { cloud } = at;
  const elsewhere = cloud.frontFor;
  (cloud as { frontFor: typeof elsewhere }).frontFor = (host) =>
    /docker\.pkg\.dev$|amazonaws\.com$|^registry\.digitalocean\.com$/.test(host) ? url() : elsewhere(host);
}

async function deploy(options: { readonly imageRef?: string } = {}) {
  const deployment = await at.open(options);
  planned = undefined;
  try {
    const outcome = await up(deployment, async ({ actions }) => {
      planned = actions
        .filter(({ action_type }) => action_type !== "noop")
        .map(({ description }) => description);
      return true;
    });
    const live = await deployment.session.inspect();
    return { ...outcome, planned, mark: live?.env?.[CONTEXT], served: live?.image };
  } finally {
    await deployment.close();
  }
}

const digestOf = (image: string) => image.split("@")[1] ?? "";
const builds = () => at.events.filter((event) => event.type === "step" && event.id === "push").length;
const LOGINS: Readonly<Record<string, [string, string]>> = {
  "cloud-run": ["oauth2accesstoken", "lab-google-token"],
  "do-app-platform": ["lab-do-token", "lab-do-token"],
};

describe.each(FLOWS)("--image-ref on $name", (flow) => {
  it("releases an image as it is, once, and the next release without it builds again", async () => {
    at = await openSite(flow, { real: false });
    const one = (await deploy()).image;
    at.write("src/controller.ts", "// two");
    const two = (await deploy()).image;
    await serveRegistry(
      { [digestOf(one)]: ["amd64", "arm64"] },
      LOGINS[flow.name] ?? ["AWS", "lab-ecr-password"],
    );
    const before = builds();

    const given = await deploy({ imageRef: one });
    const again = await deploy({ imageRef: one });
    const afterwards = builds();
    const rebuilt = await deploy();

    expect(two).not.toBe(one);
    expect(given.planned).toContain("released as it is");
    expect(given).toMatchObject({ changed: true, image: one, served: one });
    expect(given.mark).toMatch(/^given-/);
    expect(again.changed).toBe(false);
    expect(afterwards).toBe(before);
    expect(rebuilt).toMatchObject({ changed: true, served: two });
    expect(at.cloud.recorder.violations).toEqual([]);
  });

  it("is refused where the registry does not have it, or has it for another processor", async () => {
    at = await openSite(flow, { real: false });
    const one = (await deploy()).image;
    const [repository] = one.split("@");
    const [arm, missing] = ["a", "b"].map((sign) => `${repository}@sha256:${sign.repeat(64)}`) as [
      string,
      string,
    ];
    await serveRegistry({ [digestOf(arm)]: ["arm64"] }, LOGINS[flow.name] ?? ["AWS", "lab-ecr-password"]);
    const rollouts = at.cloud.rollouts();

    await expect(deploy({ imageRef: arm })).rejects.toThrow(/is for linux\/arm64, .* needs linux\/amd64/);
    await expect(deploy({ imageRef: missing })).rejects.toThrow(/does not exist/);

    expect(at.cloud.rollouts()).toBe(rollouts);
    expect(planned).toBeUndefined();
  });

  it("is asked for before the plan, and a registry that cannot be reached is named with its cause", async () => {
    at = await openSite(flow, { real: false });
    const example = await at.open();
    const [repository = ""] = example.session.imageRef("tag").split(/[@:]/);
    await example.close();
    const gone = await serveHttp(async () => ({ status: 500 }));
    await gone.close();
    answerAt(() => gone.url);

    const failed = await deploy({ imageRef: `${repository}@sha256:${"c".repeat(64)}` }).catch(
      (error: unknown) => error,
    );

    const { host } = new URL(`https://${repository}`);
    expect(failed).toMatchObject({ code: "unreachable", exitCode: 5, fix: expect.stringMatching(/network/) });
    expect((failed as Error).message).toContain(`${host} could not be reached: it refused the connection`);
    expect(planned).toBeUndefined();
    const after = await at.open();
    const begun = after.journal.unfinished;
    await after.close();
    expect(begun).toEqual([]);
  });
});

it.each([
  ["cloud-run", "quay.io/team/agents"],
  ["aws-app-runner", "docker.io/team/agents"],
  ["do-app-platform", "registry.digitalocean.com/team/other"],
])("on %s, an image of %s is refused before anything is released", async (name, repository) => {
  at = await openSite(FLOWS.find((flow) => flow.name === name)!, { real: false });

  const imageRef = `${repository}@sha256:${"c".repeat(64)}`;
  await expect(deploy({ imageRef })).rejects.toMatchObject({ code: "usage" });

  expect(at.cloud.rollouts()).toBe(0);
});
