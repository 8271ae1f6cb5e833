import { afterEach, describe, expect, it } from "vitest";
import { down } from "../../src/deploy/down.ts";
import { isDeployError } from "../../src/deploy/errors.ts";
import { up } from "../../src/deploy/up.ts";
import type { AwsState } from "./aws/state.ts";
import { FLOWS } from "./flow/clouds.ts";
import { openSite, type Site } from "./flow/site.ts";
import type { GoogleState } from "./google/state.ts";

let at: Site;
afterEach(() => at.close());

const NAME = "shared-erp-token";
const ARN = `arn:aws:secretsmanager:us-east-1:123456789012:secret:${NAME}-AbCdEf`;
const consent = async () => true;

/** A secret that others keep in the vault. */
function plant(): () => boolean {
  const state = at.cloud.state as GoogleState | AwsState;
  if ("express" in state) {
    const versions = new Map([["v1", "the-token"]]);
    state.secrets.set(NAME, { arn: ARN, name: NAME, tags: [], versions, current: "v1", deleted: false });
    return () => state.secrets.get(NAME)?.deleted === false;
  }
  state.apis.add("secretmanager.googleapis.com");
  state.secrets.set(NAME, {
    resource: { name: `projects/${state.number}/secrets/${NAME}`, labels: {} },
    versions: [{ data: Buffer.from("the-token").toString("base64") }],
    policy: { etag: "x", bindings: [] },
  });
  return () => state.secrets.has(NAME);
}

async function deployment<T>(command: (at: Awaited<ReturnType<Site["open"]>>) => Promise<T>) {
  const opened = await at.open();
  try {
    return await command(opened);
  } catch (error) {
    if (isDeployError(error)) return error;
    throw error;
  } finally {
    await opened.close();
  }
}

const refer = (ref: string, flow: string) =>
  at.write("deploy.yaml", `platform: ${flow}\nname: hello\nsecrets: { ERP_TOKEN: { ref: "${ref}" } }\n`);
const release = () => deployment((opened) => up(opened, consent));

const WITH_VAULT = FLOWS.filter(({ name }) => name !== "do-app-platform");
describe.each(WITH_VAULT)("a secret that others keep in the vault of $name", (flow) => {
  it("reaches the service, which may read it; svc neither reads nor removes it", async () => {
    at = await openSite(flow, { real: false });
    const isThere = plant();
    refer(NAME, flow.name);

    const first = await release();
    const again = await release();
    const settings = JSON.stringify(at.cloud.settings());
    refer("no-such-secret", flow.name);
    const missing = await release();
    const after = JSON.stringify(at.cloud.settings());
    refer(NAME, flow.name);
    const removed = await deployment((opened) => down(opened, consent));

    expect(first).toMatchObject({ changed: true, health: { status: "healthy" } });
    expect(again).toMatchObject({ changed: false });
    expect(settings).toContain(NAME);
    expect(missing).toMatchObject({ code: "bad_config", exitCode: 2 });
    expect(String(missing)).toContain('no secret "no-such-secret"');
    expect(after).toBe(settings);
    expect(isDeployError(removed)).toBe(false);
    expect(isThere()).toBe(true);
    const reads = at.cloud.recorder.calls.filter(({ name }) => /GetSecretValue|:access/.test(name));
    expect(reads.filter((call) => JSON.stringify(call).includes(NAME))).toEqual([]);
    expect(JSON.stringify(at.events)).not.toContain("the-token");
    expect(at.cloud.recorder.violations).toEqual([]);
  });
});

describe("a platform without a vault", () => {
  it("refuses to refer to a secret before anything is built", async () => {
    const flow = FLOWS.find(({ name }) => name === "do-app-platform")!;
    at = await openSite(flow, { real: false });
    refer(NAME, flow.name);

    const refused = await release();

    expect(refused).toMatchObject({ code: "bad_config", outcome: "Nothing was changed" });
    expect(String(refused)).toContain("has no vault to refer to");
    expect(at.cloud.recorder.changes).toEqual([]);
  });
});
