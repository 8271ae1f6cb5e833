import { join } from "node:path";
import { CONTEXT } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import {
  borrowImage,
  buildImage,
  checkArchitecture,
  DEFAULT_ARCHITECTURE,
  type Docker,
  findDocker,
  nameByContent,
  pushImage,
} from "./docker.ts";
import { DeployError } from "./errors.ts";
import { step } from "./events.ts";
import { originLabels } from "./image-tag.ts";
import { isGiven, type Prepared } from "./plan.ts";

/** Builds and pushes the image, here or remotely; resolves with its name by digest. */
export async function publishImage(deployment: Deployment, prepared: Prepared): Promise<string> {
  const { session, emit, journal, options, limits } = deployment;
  const { context, imageTag, imageCurrent, live } = prepared;
  if (imageCurrent && live?.image !== undefined) {
    const image = live.image;
    await step(emit, "build", async ({ skip }) => skip("these files are already running"));
    return image;
  }
  const given = options.imageRef;
  if (given !== undefined) {
    await step(emit, "build", async ({ skip }) => {
      const pull = session.pull?.bind(session);
      if (pull) await journal.record({ step: "image.pull", data: { ref: given } }, () => pull(given));
      skip("the image is given");
    });
    return given;
  }
  const ref = session.imageRef(imageTag);
  const repository = ref.slice(0, ref.length - imageTag.length - 1);
  const before = journal.recall("image.push");
  if (
    before?.phase === "end" &&
    before.data.context === context.hash &&
    typeof before.data.digest === "string"
  ) {
    const { digest } = before.data;
    await step(emit, "build", async ({ skip }) => skip("pushed by the previous run"));
    return `${repository}@${digest}`;
  }
  const whenOver = () =>
    new DeployError("build_failed", `The image was not ready within ${options.buildTimeout} s`, {
      outcome: "Nothing was released",
      fix: "Allow more time with --build-timeout, or check .deployment/logs/ for what is slow",
    });
  const digest = await limits.within(options.buildTimeout, whenOver, () =>
    makeImage(deployment, prepared, ref),
  );
  return `${repository}@${digest}`;
}

/** The engine that builds the image here; rejects where it cannot, before anything is changed. */
export async function findBuilder({
  session,
  tools,
}: Deployment): Promise<{ readonly docker: Docker; readonly architecture: string }> {
  const docker = await findDocker(tools);
  const architecture = (await session.architecture?.()) ?? DEFAULT_ARCHITECTURE;
  await checkArchitecture(tools, docker, architecture);
  return { docker, architecture };
}

async function makeImage(deployment: Deployment, prepared: Prepared, ref: string): Promise<string> {
  const { session, emit, journal, tools } = deployment;
  const { context, imageTag, project } = prepared;
  if (session.build) {
    const build = session.build.bind(session);
    return step(emit, "build", ({ note }) =>
      journal.record({ step: "image.push", data: { ref, context: context.hash } }, async (remember) => {
        const digest = await build(
          {
            tag: imageTag,
            hash: context.hash,
            pack: () => context.tarGz(),
            onLine: (line) => emit({ type: "output", line: deployment.redactor.text(line) }),
          },
          ref,
        );
        await remember({ digest });
        note(digest.slice(0, 19));
        return digest;
      }),
    );
  }
  const { docker, architecture } = await findBuilder(deployment);
  await step(emit, "build", async ({ note }) => {
    const secretFiles = project.secretFiles.map((file) => join(project.root, file));
    const earlier = docker.buildx ? await borrowEarlier(deployment, prepared) : undefined;
    const labels = await originLabels(tools, project.root);
    try {
      const cache = { shared: true, cacheFrom: earlier?.image };
      await buildImage(tools, docker, {
        tar: context.tar(),
        ref,
        architecture,
        labels,
        secretFiles,
        ...cache,
      });
    } finally {
      await earlier?.giveBack();
    }
    note(ref);
  });
  return step(emit, session.push ? "send" : "push", ({ note }) =>
    journal.record({ step: "image.push", data: { ref, context: context.hash } }, async (remember) => {
      const digest = await pushAnew(deployment, ref, imageTag);
      await remember({ digest });
      note(digest.slice(0, 19));
      return digest;
    }),
  );
}

/** The running image: its unchanged layers need not be built again, also on a machine that never built them. */
async function borrowEarlier({ session, tools }: Deployment, { live }: Prepared) {
  const image = live?.image;
  // Where images are not in a registry, only the machines of the service have them. One that svc did not build is no cache.
  if (image === undefined || session.push || isGiven(live?.env?.[CONTEXT])) return undefined;
  const giveBack = await borrowImage(tools, image, () => session.registryLogin());
  if (giveBack === undefined) {
    tools.report("the running image cannot be pulled, so its layers are built again");
    return undefined;
  }
  return { image, giveBack };
}

/**
 * Pushes under the wanted tag. If the registry has that tag and does not allow moving tags, a rebuild gets
 * its own tag: two builds of one commit are seldom the same to the byte.
 */
async function pushAnew({ session, tools }: Deployment, ref: string, tag: string): Promise<string> {
  if (session.push) return session.push(ref);
  const auth = await session.registryLogin();
  if ((await session.imageDigest?.(tag)) === undefined) return pushImage(tools, ref, auth);
  const own = await nameByContent(tools, ref);
  const held = await session.imageDigest?.(own.slice(ref.length - tag.length));
  if (held !== undefined) return held;
  tools.report(`the tag is taken by an earlier build; pushed as ${own}`);
  return pushImage(tools, own, auth);
}
