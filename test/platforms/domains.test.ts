import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { PlatformSession } from "../../src/deploy/platform.ts";
import appRunnerPlatform from "../../src/plugins/platforms/app-runner/platform.ts";
import type { AwsHarness } from "./aws/harness.ts";
import { ONE as AWS_ONE, awsHarness } from "./aws/harness.ts";
import type { CloudRunHarness } from "./google/harness.ts";
import { cloudRunHarness, deploy, ONE, specOf } from "./google/harness.ts";

const DOMAIN = "agents.example.com";

/** A release with the public URL that the engine would choose. */
async function update(session: PlatformSession, image: string) {
  const live = await session.inspect();
  const url = (await session.predictUrl?.(live)) ?? live?.url ?? "https://unknown.example";
  return deploy(session, specOf(image, { publicUrl: url, env: { SERVICE_PUBLIC_URL: url } }));
}

const changesOf = async (session: PlatformSession, image: string) => {
  const live = await session.inspect();
  const env = live?.env?.SERVICE_PUBLIC_URL;
  const actions = await session.plan(specOf(image, env ? { env: { SERVICE_PUBLIC_URL: env } } : {}), live);
  return actions.flatMap(({ metadata }) => (metadata as { changes?: unknown[] } | null)?.changes ?? []);
};

describe("on Cloud Run", () => {
  let at: CloudRunHarness;
  beforeEach(async () => {
    at = await cloudRunHarness();
  });
  afterEach(async () => {
    await at.close();
    expect(at.emulator.recorder.violations).toEqual([]);
  });
  const domains = () => [...at.emulator.state.domains.keys()];

  it("a domain is mapped with its records named, and is the address once it leads there; others stay", async () => {
    await update(await at.connect(), ONE);
    at.emulator.state.domains.set("old.example.com", {
      routeName: "hello-dev",
      resource: mapping("hello-dev", "old.example.com"),
      reads: 0,
    });
    const session = await at.connect({ domain: DOMAIN });

    const planned = await changesOf(session, ONE);
    const early = await update(session, ONE);
    const changes = at.emulator.recorder.changes.length;
    await update(session, ONE);
    const repeated = at.emulator.recorder.changes.length - changes;
    const reported = at.said.join("\n");
    at.emulator.state.domains.get(DOMAIN)!.reached = true;
    const later = await update(session, ONE);
    const response = await at.tools().fetch(`${later?.url}/`);

    const terraform = await session.exports?.terraform?.(specOf(ONE));
    expect(terraform).toMatch(
      /"google_cloud_run_domain_mapping" "domain" \{\n {2}name += "agents\.example\.com"[\s\S]*route_name = google_cloud_run_v2_service\.service\.name\n/,
    );
    expect(planned).toContainEqual({
      field: "domain",
      from: "old.example.com",
      to: `old.example.com, ${DOMAIN}`,
    });
    expect(early?.url).toMatch(/run\.app$/);
    expect(repeated).toBe(0);
    expect(reported).toContain(
      `${DOMAIN} does not lead to the service yet: add CNAME agents ghs.googlehosted.com. to its DNS`,
    );
    expect(later).toMatchObject({
      url: `https://${DOMAIN}`,
      env: { SERVICE_PUBLIC_URL: `https://${DOMAIN}` },
    });
    expect(response.status).toBe(200);
    expect(domains()).toEqual(["old.example.com", DOMAIN]);
    expect(await changesOf(session, ONE)).toEqual([]);
  });

  it("without the option a domain and its address are kept; none removes all domains, and the address is Cloud Run's", async () => {
    const session = await at.connect({ domain: DOMAIN });
    await update(session, ONE);
    at.emulator.state.domains.get(DOMAIN)!.reached = true;
    await update(session, ONE);

    const kept = await changesOf(await at.connect(), ONE);
    const none = await at.connect({ domain: "none" });
    const planned = await changesOf(none, ONE);
    const after = await update(none, ONE);

    expect(kept).toEqual([]);
    expect(planned).toEqual([{ field: "domain", from: DOMAIN, to: null }]);
    expect(after?.url).toMatch(/run\.app$/);
    expect(after?.env?.SERVICE_PUBLIC_URL).toBe(after?.url);
    expect(domains()).toEqual([]);
  });

  it("the removal of a service removes its domain mappings, and no others", async () => {
    const session = await at.connect({ domain: DOMAIN });
    await update(session, ONE);
    at.emulator.state.domains.set("other.example.com", {
      routeName: "other",
      resource: mapping("other", "other.example.com"),
      reads: 0,
    });

    await session.remove();

    expect(domains()).toEqual(["other.example.com"]);
  });

  it("a domain of another service, and one that is not verified, are refused before anything changes", async () => {
    await update(await at.connect(), ONE);
    at.emulator.state.domains.set(DOMAIN, {
      routeName: "other",
      resource: mapping("other", DOMAIN),
      reads: 0,
    });
    const changes = at.emulator.recorder.changes.length;

    const taken = await at.connect({ domain: DOMAIN });
    const unverified = await at.connect({ domain: "agents.example.org" });

    await expect(changesOf(taken, ONE)).rejects.toMatchObject({
      exitCode: 2,
      message: `${DOMAIN} already leads to the service "other"`,
      fix: expect.stringContaining("domain-mappings delete"),
    });
    await expect(changesOf(unverified, ONE)).rejects.toMatchObject({
      exitCode: 2,
      detail: "Verified for this login: example.com",
      fix: expect.stringContaining("gcloud domains verify example.org"),
    });
    expect(at.emulator.recorder.changes.length).toBe(changes);
  });

  it("a login that may not see domain mappings still deploys, and says so", async () => {
    at.emulator.state.switches.domainsDenied = true;

    const release = await update(await at.connect({ domain: DOMAIN }), ONE);

    expect(release?.url).toMatch(/run\.app$/);
    expect(at.said.join("\n")).toContain("this login may not see the domains of the service");
  });

  it("a region without domain mappings is an error that names the way that works there", async () => {
    at.emulator.state.switches.noDomainMappings = true;

    const planned = (await at.connect({ domain: DOMAIN })).plan(specOf(ONE));

    await expect(planned).rejects.toMatchObject({
      message: `Cloud Run did not map ${DOMAIN} in us-central1`,
      detail: expect.stringContaining("not available in region"),
      fix: expect.stringContaining("--public-url"),
    });
  });

  it("a mapping that Cloud Run gave up on is an error, and the next deployment makes it again", async () => {
    const session = await at.connect({ domain: DOMAIN });
    await update(await at.connect(), ONE);
    at.emulator.state.verifiedDomains.length = 0;
    const failed = session.release(specOf(ONE));
    await expect(failed).rejects.toMatchObject({
      message: `The service did not get the domain ${DOMAIN}`,
      detail: expect.stringContaining("not authorized"),
    });
    at.emulator.state.domains.get(DOMAIN)!.reached = true;
    at.emulator.state.verifiedDomains.push("example.com");
    at.emulator.state.domains.delete(DOMAIN);

    await update(session, ONE);

    expect(domains()).toEqual([DOMAIN]);
  });
});

const mapping = (routeName: string, name: string) => ({
  metadata: { name, namespace: "demo-project" },
  spec: { routeName },
});

describe("on App Runner", () => {
  let at: AwsHarness;
  beforeEach(async () => {
    at = await awsHarness();
  });
  afterEach(async () => {
    await at.close();
    expect(at.cloud.recorder.violations).toEqual([]);
  });
  const connect = (domain?: string) =>
    appRunnerPlatform.connect(at.target(domain === undefined ? {} : { domain }), at.tools());
  const service = () => at.cloud.state.services.find(({ status }) => status !== "DELETED")!;

  it("a domain is associated with its records named, and is the address once it leads there; others stay", async () => {
    await update(await connect(), AWS_ONE);
    service().domains.push({ name: "old.example.com", status: "ACTIVE", reads: 0 });
    const session = await connect(DOMAIN);

    const early = await update(session, AWS_ONE);
    const changes = at.cloud.recorder.changes.length;
    await update(session, AWS_ONE);
    const repeated = at.cloud.recorder.changes.length - changes;
    const reported = at.said.join("\n");
    service().domains[1]!.status = "ACTIVE";
    const later = await update(session, AWS_ONE);
    const response = await at.tools().fetch(`${later?.url}/`);
    const terraform = await session.exports?.terraform?.(specOf(AWS_ONE));
    const none = await update(await connect("none"), AWS_ONE);

    expect(early?.url).toMatch(/awsapprunner\.com$/);
    expect(repeated).toBe(0);
    expect(reported).toMatch(
      /agents\.example\.com does not lead .*: add CNAME agents\.example\.com \w+\.us-east-1\.awsapprunner\.com and CNAME _a1b2\.\S+ _c3d4\.\S+ to its DNS/,
    );
    expect(later).toMatchObject({
      url: `https://${DOMAIN}`,
      env: { SERVICE_PUBLIC_URL: `https://${DOMAIN}` },
    });
    expect(response.status).toBe(200);
    expect(terraform).toMatch(
      /"aws_apprunner_custom_domain_association" "domain" \{\n {2}domain_name += "agents\.example\.com"\n {2}service_arn += aws_apprunner_service\.service\.arn\n/,
    );
    expect(none?.env?.SERVICE_PUBLIC_URL).toMatch(/awsapprunner\.com$/);
    expect(service().domains).toEqual([]);
  });

  it("a domain that App Runner gave up on is an error, and the next deployment associates it again", async () => {
    await update(await connect(), AWS_ONE);
    at.cloud.state.switches.failDomains = true;
    const session = await connect(DOMAIN);
    await expect(session.release(specOf(AWS_ONE))).rejects.toMatchObject({
      message: `The service did not get the domain ${DOMAIN}`,
      detail: expect.stringContaining("CREATE_FAILED"),
    });
    at.cloud.state.switches.failDomains = false;
    service().domains.push({ name: "old.example.com", status: "CREATE_FAILED", reads: 0 });

    const planned = await changesOf(session, AWS_ONE);
    await update(session, AWS_ONE);

    expect(planned).toContainEqual({ field: "domain", from: null, to: DOMAIN });
    expect(service().domains).toMatchObject([
      { name: "old.example.com", status: "CREATE_FAILED" },
      { name: DOMAIN, status: "PENDING_CERTIFICATE_DNS_VALIDATION" },
    ]);
  });

  it("a domain of another service is an error that says what to do, after the release", async () => {
    await update(await connect(), AWS_ONE);
    at.cloud.state.services.push({
      ...service(),
      name: "other",
      arn: service().arn.replace("hello-dev", "other"),
      domains: [{ name: DOMAIN, status: "ACTIVE", reads: 0 }],
    });

    await expect((await connect(DOMAIN)).release(specOf(AWS_ONE))).rejects.toMatchObject({
      message: `App Runner did not associate ${DOMAIN} with "hello-dev"`,
      detail: expect.stringContaining("already associated"),
      outcome: "The release itself is done",
      fix: expect.stringContaining("--domain none"),
    });
  });
});
