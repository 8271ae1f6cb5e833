import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere } from "../../core/base/read-if-there.ts";
import { DeployError } from "../errors.ts";
import { deploymentFolder, isEdited, refuseLinks } from "../files.ts";
import type { LocalRun } from "./local-run.ts";
import { secretsFolder } from "./local-secrets.ts";

const COMPOSE = "docker-compose.yml";

/**
 * Makes sure that the compose file and the stored keys are this user's own: created by svc for this user, or
 * accepted once with exactly this content. Other files may have come with the project, to start containers or
 * read the user's variables. At a terminal the person is asked, even with `--yes`; otherwise this rejects.
 */
export async function checkOwnFiles(run: LocalRun): Promise<void> {
  const { cwd, trusted, options, ask } = run;
  const texts = await filesInUse(run);
  const unknown = Object.keys(texts).filter((file) => !trusted.knows(file, texts[file] ?? ""));
  if (unknown.length === 0) return;
  const names = unknown.map((file) => `.deployment/${file}`).join(", ");
  const agreed =
    options.trustFiles ||
    (await ask?.(`${names}: not created by svc for you, or changed since. Use them anyway?`));
  if (agreed !== true)
    throw new DeployError("preflight", `${names}: not created by svc for you, or changed since`, {
      detail: `The author of a file in ${deploymentFolder(cwd)} decides what runs on this machine, and which variables it gets`,
      outcome: "Nothing was built or started",
      fix: "Read the files. Then delete them so that svc creates them, or add --trust-files once to use them as they are",
    });
  await trusted.trust(Object.fromEntries(unknown.map((file) => [file, texts[file] ?? ""])));
}

/**
 * Texts of the compose file, if it is not the generated one, and of the stored keys, by name below
 * `.deployment/`.
 */
async function filesInUse(run: LocalRun): Promise<Record<string, string>> {
  const { cwd, serviceName, options } = run;
  const texts: Record<string, string> = {};
  await refuseLinks(cwd, [COMPOSE]);
  const compose = await readIfThere(join(deploymentFolder(cwd), COMPOSE));
  if (compose !== undefined && isEdited(compose) && !options.overwriteFiles) texts[COMPOSE] = compose;
  for (const name of await readdir(secretsFolder(run)).catch(() => [])) {
    const file = `secrets/${serviceName}/${name}`;
    await refuseLinks(cwd, [file]);
    texts[file] = await readFile(join(deploymentFolder(cwd), file), "utf8");
  }
  return texts;
}
