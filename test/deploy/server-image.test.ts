// @long
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { createDeployTools } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { toTar } from "../../src/deploy/tar.ts";
import platform from "../../src/plugins/platforms/server/platform.ts";
import { requirement } from "../_require.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { textFile } from "./_context.ts";
import { docker, freePort } from "./_local-project.ts";
import { failure, site } from "./server/site.ts";

const { describe, it, met } = requirement("docker", "sshd");

let sshd: Sshd;
let folder: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  folder = mkdtempSync(join(tmpdir(), "svc-server-image-"));
});
afterAll(async () => {
  await sshd?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** A host whose Docker is this machine's, except for some of its commands. */
function hostWith(name: string, cases: string): string {
  const path = join(folder, name);
  mkdirSync(path);
  const script = `#!/bin/sh\nPATH=${process.env.PATH}\ncase "$1 $2" in\n${cases}\nesac\nexec docker "$@"\n`;
  writeFileSync(join(path, "docker"), script, { mode: 0o755 });
  return sshd.restricted(name, `PATH=${path}:$PATH; export PATH; /bin/sh -c "$SSH_ORIGINAL_COMMAND"`);
}

/** An image of two layers: a large one, which another image has too, and a small one of its own. */
async function layered() {
  const name = `svc-layers-${randomBytes(4).toString("hex")}`;
  onTestFinished(() => void docker("image", "rm", "--force", `${name}:base`, `${name}:one`));
  const tools = createDeployTools({ cwd: folder });
  const large = randomBytes(400_000);
  const file = { path: "large", size: large.length, content: () => [large] };
  await tools.exec("docker", ["import", "-", `${name}:base`], { input: toTar([file]) });
  const input = toTar([
    textFile("Dockerfile", `FROM ${name}:base\nCOPY small /small\n`),
    textFile("small", "s"),
  ]);
  await tools.exec("docker", ["build", "--tag", `${name}:one`, "-"], { input });
  const id = (tag: string) => docker("image", "inspect", "--format", "{{.Id}}", `${name}:${tag}`);
  return { ref: `${name}:one`, id: id("one"), base: id("base") };
}

async function push(sshConfig: string, ref: string): Promise<string | undefined> {
  const session = await platform.connect(
    {
      name: "image",
      environment: "dev",
      serviceName: "image-dev",
      region: "server",
      projectId: undefined,
      port: 8000,
      flags: { host: "server", sshConfig },
      cwd: folder,
    },
    createDeployTools({ cwd: folder }),
  );
  try {
    return await session.push?.(ref);
  } finally {
    await session.close?.();
  }
}

describe("the image of a server", () => {
  it("arrives whole, without the layers that the server has", async () => {
    const { ref, id, base } = await layered();
    const sent = join(folder, "sent");
    // The server has the base only: the image is removed between its departure and its arrival.
    const config = hostWith(
      "layers",
      `"image ls") echo '${base}'; exit ;;
       "load "*) cat > ${sent}; docker image rm ${ref} >/dev/null || exit 1; exec docker load < ${sent} ;;`,
    );

    const pushed = await push(config, ref);

    expect(pushed).toBe(id);
    expect(docker("image", "inspect", "--format", "{{.Id}}", ref)).toBe(id);
    expect(gunzipSync(readFileSync(sent)).length).toBeLessThan(100_000);
  });

  it("arrives whole where the engine wants all layers, and is refused where another one arrived", async () => {
    const { ref, id, base } = await layered();
    const tries = join(folder, "tries");
    const lists = `"image ls") echo '${base}'; exit ;;`;
    const picky = hostWith(
      "picky",
      `${lists} "load "*) wc -c >> ${tries}; [ $(wc -l < ${tries}) = 1 ] && { echo 'missing layer' >&2; exit 1; }; exit 0 ;;`,
    );
    const other = hostWith("other", `${lists} "load "*) cat >/dev/null; docker tag ${base} ${ref}; exit ;;`);

    const pushed = await push(picky, ref);
    const [first = 0, second = 0] = readFileSync(tries, "utf8").trim().split("\n").map(Number);
    const refused = await push(other, ref).catch(failure);

    expect(pushed).toBe(id);
    expect(second - first).toBeGreaterThan(300_000);
    expect(refused).toMatchObject({
      message: expect.stringContaining("another image"),
      detail: expect.stringContaining(id),
    });
  });

  it("is refused before the build where Docker here cannot build for the server's processor", async () => {
    const config = hostWith(
      "arm",
      `"version "*) [ "$3" = '{{.Server.Arch}}' ] && { echo riscv64; exit; } ;;`,
    );
    const at = await site(config, await freePort());
    const events: string[] = [];
    const checkout = at.checkout();
    checkout.step("one");

    const refused = await checkout
      .up({ onEvent: (event) => events.push(JSON.stringify(event)) })
      .catch(failure);

    expect(refused).toMatchObject({
      code: "preflight",
      message: expect.stringMatching(/must be built for riscv64, and Docker here builds for \w+/),
      outcome: "Nothing was built",
    });
    expect(events.join("\n")).not.toContain('"build"');
  });
});
