import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { readIfThere } from "../core/base/read-if-there.ts";
import type { ContextFiles } from "./build-context.ts";
import { DeployError } from "./errors.ts";
import { type Emit, inform } from "./events.ts";
import { effectiveFile } from "./files.ts";

/** The Dockerfile and the ignore rules that an image is built with: the user's own, else the generated ones. */
export async function imageFiles(
  cwd: string,
  generated: Readonly<Record<string, string>>,
  {
    options,
    emit,
  }: {
    readonly options: Readonly<Partial<Record<"dockerfile" | "baseImage" | "apt", string | undefined>>>;
    readonly emit: Emit;
  },
): Promise<ContextFiles> {
  const dockerignore = await effectiveFile(cwd, ".dockerignore", generated[".dockerignore"] ?? "");
  const { dockerfile: own } = options;
  const refuse = (message: string, fix: string) =>
    new DeployError("usage", message, { outcome: "Nothing was built", fix });
  if (own === undefined) {
    const body = generated.Dockerfile ?? "";
    const dockerfile = await effectiveFile(cwd, "Dockerfile", body);
    const useless = dockerfile.endsWith(body) ? undefined : given(options);
    if (useless !== undefined)
      throw refuse(
        `${useless.option} has no effect: .deployment/Dockerfile was edited`,
        `${useless.instead} there, or delete the file: it is generated again`,
      );
    if (existsSync(join(cwd, "Dockerfile")))
      inform(emit, "The Dockerfile of the project is not used: --dockerfile Dockerfile builds with it");
    return { dockerfile, dockerignore };
  }
  const useless = given(options);
  if (useless !== undefined)
    throw refuse(
      `${useless.option} has no effect on your own Dockerfile`,
      `${useless.instead} there, or remove one of the two options`,
    );
  const dockerfile = await readIfThere(resolve(cwd, own));
  if (dockerfile === undefined)
    throw refuse(`--dockerfile ${own}: there is no such file`, "Name it relative to the project's folder");
  return { dockerfile, dockerignore };
}

/** An option that only the generated Dockerfile follows, and what to do in another one in its place. */
function given({
  apt,
  baseImage,
}: {
  readonly apt?: string | undefined;
  readonly baseImage?: string | undefined;
}) {
  if (apt !== undefined) return { option: "--apt", instead: "Install the packages" };
  return baseImage === undefined ? undefined : { option: "--base-image", instead: "Name the image" };
}
