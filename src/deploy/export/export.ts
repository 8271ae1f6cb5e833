import { MARKS } from "../config.ts";
import type { Deployment } from "../deployment.ts";
import { DeployError } from "../errors.ts";
import { prepare } from "../plan.ts";
import { composeFile } from "./compose.ts";

/** A release in the format of another tool, as text without any secret. */
export interface Exported {
  readonly text: string;
  /** The image that it names: pushed by `svc deploy up`, or by hand. */
  readonly image: string;
  /** Names of its secrets, which the other tool has to provide. */
  readonly secrets: readonly string[];
}

/** What the next `up` would release, in one of the formats of its platform. Writes nothing, here or there. */
export async function exportRelease(deployment: Deployment, format: string): Promise<Exported> {
  const { session, platform } = deployment;
  const formats = { compose: undefined, ...session.exports };
  if (!(format in formats))
    throw new DeployError("usage", `Platform ${platform.name} cannot be exported as "${format}"`, {
      fix: `Formats of this platform: ${Object.keys(formats).join(", ")}`,
    });
  const { spec: planned, imageTag } = await prepare(deployment);
  // Marks belong to what svc has built and released itself.
  const env = Object.fromEntries(Object.entries(planned.env).filter(([name]) => !MARKS.includes(name)));
  // Without a registry, a digest names an image of the target only.
  const image = session.push ? session.imageRef(imageTag) : planned.image;
  const spec = { ...planned, env, image };
  const own = session.exports?.[format];
  const text = own ? await own(spec) : composeFile(spec);
  return { text, image, secrets: Object.keys(spec.secrets).sort() };
}
