import { describe, expect, it } from "vitest";
import { readSettings } from "../../src/deploy/file/deploy-file.ts";
import { prepare } from "../../src/deploy/plan.ts";
import { stage, temporaryProject, writeAll } from "./_fixture.ts";

const OWN = 'FROM node:22-slim\nCMD ["own"]\n';

/** What an image is built with in a project that has these files besides. */
async function dockerfileOf(files: Record<string, string>, options = {}) {
  const at = await stage();
  writeAll(at.cwd, files);
  const { context } = await prepare(await at.open(options));
  const file = context.files.find(({ path }) => path === "Dockerfile");
  let text = "";
  for await (const chunk of file?.content() ?? []) text += Buffer.from(chunk).toString();
  const notices = at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));
  return { text, hash: context.hash, notices: notices.filter((one) => one.includes("Dockerfile")) };
}

describe("an own Dockerfile", () => {
  it("is used where it is named, by an option or in deploy.yaml; elsewhere the plan says that it is not", async () => {
    const unused = await dockerfileOf({ Dockerfile: OWN });
    const typed = await dockerfileOf({ Dockerfile: OWN }, { dockerfile: "Dockerfile" });
    const written = await dockerfileOf({
      "docker/service": OWN,
      "deploy.yaml": "dockerfile: docker/service\n",
    });
    const edited = await dockerfileOf(
      { Dockerfile: OWN, ".deployment/Dockerfile": "FROM edited\n" },
      { dockerfile: "Dockerfile" },
    );

    expect(unused.text).toContain("AS runtime");
    expect(unused.notices).toEqual([expect.stringMatching(/is not used: --dockerfile Dockerfile/)]);
    expect([typed.text, written.text, edited.text]).toEqual([OWN, OWN, OWN]);
    expect([...typed.notices, ...written.notices]).toEqual([]);
    expect(typed.hash).not.toBe(unused.hash);
  });

  it.each([
    [{}, { dockerfile: "none" }, /--dockerfile none: there is no such file/],
    [
      { Dockerfile: OWN },
      { dockerfile: "Dockerfile", apt: "ffmpeg" },
      /--apt has no effect on your own Dockerfile/,
    ],
    [
      { ".deployment/Dockerfile": OWN },
      { apt: "ffmpeg" },
      /--apt has no effect: .deployment\/Dockerfile was edited/,
    ],
    [
      { Dockerfile: OWN },
      { dockerfile: "Dockerfile", baseImage: "node:24-slim" },
      /--base-image has no effect on your own Dockerfile/,
    ],
  ])("is refused where it cannot have the wanted effect: %j %j", async (files, options, message) => {
    await expect(dockerfileOf(files as Record<string, string>, options)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringMatching(message),
      outcome: "Nothing was built",
    });
  });
});

describe("the image that the generated one starts from", () => {
  it("is the one that is named, in each stage, by its digest and from a mirror too", async () => {
    const digest = `sha256:${"a1".repeat(32)}`;
    const none = await dockerfileOf({ ".nvmrc": "v24.1.0" });
    const pinned = await dockerfileOf({ "deploy.yaml": `baseImage: node:22-slim@${digest}\n` });
    const mirrored = await dockerfileOf({}, { baseImage: "mirror.example:5000/library/node:24-slim" });

    const startsOf = (text: string) =>
      [...text.matchAll(/^FROM (\S+) AS (base|runtime)$/gm)].map(([, from]) => from);
    expect(startsOf(none.text)).toEqual(["node:24-slim", "node:24-slim"]);
    expect(startsOf(pinned.text)).toEqual([`node:22-slim@${digest}`, `node:22-slim@${digest}`]);
    expect(startsOf(mirrored.text)).toEqual(Array(2).fill("mirror.example:5000/library/node:24-slim"));
    expect(new Set([none.hash, pinned.hash, mirrored.hash]).size).toBe(3);
  });

  it.each(["node:22-slim\nRUN id", "node 22", "node:22-slim@sha256:12", "$(id)"])(
    "is a name: %j",
    async (name) => {
      const cwd = temporaryProject({ "deploy.yaml": `baseImage: ${JSON.stringify(name)}\n` });
      const platform = { name: "memory", flags: { entries: {} } } as never;

      await expect(readSettings(cwd, "dev", platform, {})).rejects.toMatchObject({
        code: "bad_config",
        message: expect.stringMatching(/baseImage must be the name of an image/),
      });
    },
  );
});

describe("system packages", () => {
  it("are installed in the image that runs, in any order the same, and keep what they need", async () => {
    const none = await dockerfileOf({});
    const one = await dockerfileOf({ "deploy.yaml": "apt: poppler-utils  ffmpeg\n" });
    const two = await dockerfileOf({}, { apt: "ffmpeg poppler-utils" });

    const [, system] = /AS runtime\n([\s\S]*?)\nFROM scratch/.exec(one.text) ?? [];
    expect(system).toContain("install --yes --no-install-recommends ffmpeg poppler-utils\nRUN rm -rf");
    expect(system).not.toContain("gconv");
    expect(none.text).toContain("gconv");
    expect(none.text).not.toContain("apt-get install");
    expect(two.text).toBe(one.text);
  });

  it("are names: nothing else gets into a command of the build", async () => {
    const cwd = temporaryProject({ "deploy.yaml": "apt: ffmpeg; reboot\n" });
    const platform = { name: "memory", flags: { entries: {} } } as never;

    await expect(readSettings(cwd, "dev", platform, {})).rejects.toMatchObject({
      code: "bad_config",
      message: expect.stringMatching(/line 1, column 1: apt must be names of Debian packages/),
    });
  });
});
