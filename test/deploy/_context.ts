import type { PackedContext } from "../../src/deploy/build-context.ts";
import { packContext } from "../../src/deploy/build-context.ts";
import type { ContextSource } from "../../src/deploy/context-files.ts";
import { readProject } from "../../src/deploy/project.ts";
import type { TarEntry } from "../../src/deploy/tar.ts";
import { renderTemplates } from "../../src/deploy/templates.ts";

/** An entry of an archive with this text. */
export function textFile(path: string, text: string, more: Partial<TarEntry> = {}): TarEntry {
  const content = Buffer.from(text);
  return { path, size: content.length, content: () => [content], ...more };
}

/** All that comes, in one piece. */
export async function bytesOf(pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const piece of pieces) chunks.push(piece);
  return Buffer.concat(chunks);
}

/** A folder that is a project of its own. */
export function alone(root: string): ContextSource {
  return { root, folder: "", controller: "src/controller.ts", unused: [] };
}

/** The context of a project as `svc deploy` packs it, by the generated rules. */
export async function packed(cwd: string): Promise<PackedContext> {
  const project = await readProject(cwd);
  const files = await renderTemplates({
    project,
    name: "hello",
    serviceName: "hello-dev",
    port: 8000,
    localImage: "hello-dev:local-test",
    imageTag: "t",
    env: {},
    secretNames: [],
  });
  return packContext(project, {
    dockerfile: files.Dockerfile ?? "",
    dockerignore: files[".dockerignore"] ?? "",
  });
}

/** The paths of a context's files, except for those that every project has. */
export function pathsOf({ files }: PackedContext): string[] {
  return files
    .map(({ path }) => path)
    .filter((path) => !["Dockerfile", ".dockerignore", "package.json", "src/controller.ts"].includes(path));
}
