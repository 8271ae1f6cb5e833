import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { readIfThere } from "./atomic-file.ts";
import type { ContextFiles } from "./build-context.ts";
import { DeployError } from "./errors.ts";
import type { Emit } from "./events.ts";
import { effectiveFile } from "./files.ts";

/** The Dockerfile and the ignore rules that an image is built with: the user's own, else the generated ones. */
export async function imageFiles(
  cwd: string,
  generated: Readonly<Record<string, string>>,
  {
    options,
    emit,
  }: {
    readonly options: { readonly dockerfile?: string | undefined; readonly apt?: string | undefined };
    readonly emit: Emit;
  },
): Promise<ContextFiles> {
  const dockerignore = await effectiveFile(cwd, ".dockerignore", generated[".dockerignore"] ?? "");
  const { dockerfile: own, apt } = options;
  const refuse = (message: string, fix: string) =>
    new DeployError("usage", message, { outcome: "Nothing was built", fix });
  if (own === undefined) {
    const body = generated.Dockerfile ?? "";
    const dockerfile = await effectiveFile(cwd, "Dockerfile", body);
    if (apt !== undefined && !dockerfile.endsWith(body))
      throw refuse(
        "--apt has no effect: .deployment/Dockerfile was edited",
        "Install the packages there, or delete the file: it is generated again",
      );
    if (existsSync(join(cwd, "Dockerfile")))
      emit({
        type: "notice",
        level: "info",
        message: "The Dockerfile of the project is not used: --dockerfile Dockerfile builds with it",
      });
    return { dockerfile, dockerignore };
  }
  if (apt !== undefined)
    throw refuse(
      "--apt has no effect on your own Dockerfile",
      "Install the packages there, or remove one of the two options",
    );
  const dockerfile = await readIfThere(resolve(cwd, own));
  if (dockerfile === undefined)
    throw refuse(`--dockerfile ${own}: there is no such file`, "Name it relative to the project's folder");
  return { dockerfile, dockerignore };
}
