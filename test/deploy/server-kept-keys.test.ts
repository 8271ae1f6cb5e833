// @long
import { afterAll, beforeAll, expect } from "vitest";
import type { Deployment } from "../../src/deploy/deployment.ts";
import { down } from "../../src/deploy/down.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { docker } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { type Checkout, failure } from "./server/site.ts";
import { withDatabase } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "postgres");

let sshd: Sshd;
beforeAll(async () => {
  if (met) sshd = await startSshd();
});
afterAll(() => sshd?.close());

const GENERATED = { options: { generateRsa: true } };
const RSA = "SERVICE_RSA_PRIVATE_KEY";

/** Volumes with values of secrets that a service has on the server, by variable. */
function secretsOf(serviceName: string): string[] {
  const volumes = allOf(serviceName).flatMap(
    (one) => one.match(/^volume [\w-]+\.(SERVICE_\w+)\./)?.[1] ?? [],
  );
  return [...new Set(volumes)].sort();
}

const keysIn = ({ left }: Awaited<ReturnType<Checkout["down"]>>) =>
  left.flatMap(({ resource_type, resource_name }) => (resource_type === "secret" ? [resource_name] : []));

describe("a service that is removed from a server, and deployed again", () => {
  it("reads its jobs in a database beside it with the key that was generated for it", async () => {
    const { at, mine, image, start, expectStatuses } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up({ flags: { postgres: image }, ...GENERATED });
    await start("one");
    await expectStatuses({ one: "awaiting" });

    const first = await mine.down({ options: { acceptDataLoss: true } });
    const again = await mine.down();
    const left = secretsOf(at.serviceName);
    await mine.up({ flags: { postgres: image }, ...GENERATED });
    await expectStatuses({ one: "awaiting" });
    await at.ask("/jobs/one/cases/one/update", { answer: { word: "done" } });
    await expectStatuses({ one: "completed" });
    const without = await mine.down({ options: { removeKeys: true, acceptDataLoss: true } });
    const refused = failure(await mine.up().catch((error: unknown) => error));
    const last = await mine.down({ flags: { removeData: true } });

    expect(first.removed).not.toContain(`secret ${RSA}`);
    expect([keysIn(first), keysIn(again), again.removed]).toEqual([[RSA], [RSA], []]);
    expect(left).toEqual([RSA]);
    expect(without.removed).toContain(`secret ${RSA}`);
    expect(refused).toMatchObject({
      code: "preflight",
      fix: expect.stringContaining(
        `--postgres ${image}, and in the environment the ${RSA} that the service had: it is not stored on the server`,
      ),
    });
    expect(keysIn(last)).toEqual([]);
    expect(allOf(at.serviceName)).toEqual([]);
  }, 600_000);

  it("reads its jobs in its volume with the key that it has made for itself", async () => {
    const { at, mine, start, expectStatuses } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up();
    const own = docker("exec", at.running()[0]!, "cat", "/data/rsa-private-key.pem");
    await start("one");
    await expectStatuses({ one: "awaiting" });

    await mine.down();
    await mine.up(GENERATED);
    await expectStatuses({ one: "awaiting" });

    const read = `cat /run/secrets/*/${RSA}`;
    expect(docker("exec", at.running()[0]!, "sh", "-c", read)).toBe(own);
    expect(secretsOf(at.serviceName)).toContain(RSA);
    const gone = await mine.down({ options: { removeKeys: true } });
    expect(keysIn(gone)).toEqual([]);
    expect(gone.removed).toContain(`secret ${RSA}`);
    expect(secretsOf(at.serviceName)).toEqual([]);
  }, 600_000);

  it("gets the key that it has made also where it does not run, and none where that key cannot be read", async () => {
    const { at, mine } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up();
    const [container = ""] = at.running();
    const own = docker("exec", container, "cat", "/data/rsa-private-key.pem");
    docker("stop", container);
    // The key is a folder, which no tool unpacks as a file.
    const volume = `${at.serviceName}.data`;
    const inVolume = (script: string) =>
      docker(
        "run",
        "--rm",
        "--user=0",
        "--entrypoint=sh",
        `--volume=${volume}:/data`,
        imageOf(container),
        "-c",
        script,
      );
    inVolume("mv /data/rsa-private-key.pem /data/kept && mkdir /data/rsa-private-key.pem");
    const refused = failure(await mine.up(GENERATED).catch((error: unknown) => error));
    inVolume("rmdir /data/rsa-private-key.pem && mv /data/kept /data/rsa-private-key.pem");

    await mine.up(GENERATED);

    const read = `cat /run/secrets/*/${RSA}`;
    expect(refused.message).toContain(`(${RSA}) could not be read`);
    expect(docker("exec", at.running()[0]!, "sh", "-c", read)).toBe(own);
  }, 600_000);

  it("has its volume until somebody has agreed to its end, also where it is gone", async () => {
    const { at, mine } = await withDatabase(sshd.config);
    mine.step("one");
    await mine.up();
    await mine.down();
    const volume = `volume ${at.serviceName}.data`;
    const plans: string[] = [];
    const refuse = async (deployment: Deployment) => {
      try {
        return await down(deployment, async ({ actions }) => {
          plans.push(...actions.map((one) => `${one.action_type} ${one.resource_type} ${one.resource_name}`));
          return false;
        });
      } finally {
        await deployment.close();
      }
    };

    const declined = failure(
      await refuse(await mine.open("down", { flags: { removeData: true } })).catch((error: unknown) => error),
    );
    const after = allOf(at.serviceName);
    const { removed } = await mine.down({ flags: { removeData: true } });

    expect(declined.code).toBe("declined");
    expect(plans).toEqual([`delete ${volume}`]);
    expect(after).toContain(volume);
    expect(removed).toEqual([volume]);
    expect(allOf(at.serviceName)).not.toContain(volume);
  }, 600_000);
});

function imageOf(container: string): string {
  return docker("inspect", "--format", "{{.Image}}", container);
}
