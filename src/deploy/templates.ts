import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { TemplateEngine } from "../core/base/template-engine.ts";
import { CREDENTIAL_NAMES } from "./credential-names.ts";
import type { PackageManager } from "./lock-files.ts";
import type { Project } from "./project.ts";

/** Input of the deployment files. */
export interface FileInput {
  readonly project: Project;
  readonly name: string;
  readonly serviceName: string;
  readonly port: number;
  /** Image that compose runs. */
  readonly localImage: string;
  readonly imageTag: string;
  /** Plain variables of the containers, by name. */
  readonly env: Readonly<Record<string, string>>;
  /** Variables whose value compose reads from its own environment. */
  readonly secretNames: readonly string[];
  /** Image that the generated one starts from. @default the slim one of the project's Node */
  readonly baseImage?: string | undefined;
  /** Debian packages of the image, separated by spaces. */
  readonly apt?: string | undefined;
  /** The database that the instances of a local test share. */
  readonly database?:
    | { readonly instances: readonly string[]; readonly image: string | undefined }
    | undefined;
}

const FOLDER = new URL("../templates/deploy/", import.meta.url);

/** Text of each generated file, by its name under `.deployment/`. */
export async function renderTemplates(input: FileInput): Promise<Record<string, string>> {
  const { TEMPLATES } = await import("./compiled-templates.ts");
  const engine = new TemplateEngine(TEMPLATES);
  const balancer = await readFile(new URL("balancer.cjs", FOLDER), "utf8");
  const prune = await readFile(new URL("prune.cjs", FOLDER), "utf8");
  const { database } = input;
  const data = {
    ...toData(input),
    prune: JSON.stringify(prune),
    database: database && {
      ...database,
      passwordFile: "POSTGRES_PASSWORD",
      // Compose would replace what follows a single $.
      balancer: JSON.stringify(balancer).replaceAll("$", "$$$$"),
    },
  };
  const names = {
    Dockerfile: "Dockerfile",
    ".dockerignore": "dockerignore",
    // Where Docker itself looks when it is run by hand with --file .deployment/Dockerfile.
    "Dockerfile.dockerignore": "dockerignore",
    "docker-compose.yml": "docker-compose.yml",
    "cloudbuild.yaml": "cloudbuild.yaml",
    "do-app-spec.yaml": "do-app-spec.yaml",
    "DEPLOY_AUTOMATION.md": "DEPLOY_AUTOMATION.md",
  };
  const files: Record<string, string> = {};
  for (const [file, template] of Object.entries(names)) {
    files[file] = `${engine.render(template, data).trimEnd()}\n`;
  }
  return files;
}

/** The name of a settings file in a build: `npmrc` of `.npmrc`. */
export function secretId(file: string): string {
  return basename(file).slice(1).replaceAll(".", "-");
}

function toData({
  baseImage,
  apt = "",
  project,
  name,
  serviceName,
  port,
  localImage,
  imageTag,
  env,
  secretNames,
}: FileInput) {
  const folders = project.installFiles.filter((path) => path.includes("/") || !/\./.test(path.slice(1)));
  const rootFiles = project.installFiles.filter((path) => !folders.includes(path));
  const manager = managerCommands(project);
  const removable = rootFiles.filter((path) => path.endsWith(".tgz"));
  return {
    name,
    serviceName,
    port,
    imageTag,
    apt: apt.split(/\s+/).filter(Boolean).sort().join(" "),
    image: localImage,
    baseImage: baseImage ?? `node:${project.nodeVersion}-slim`,
    controller: project.controller,
    hasBuild: project.hasBuild,
    folder: project.folder,
    // Paths may have spaces, so they are in the form of a list.
    manifests: (project.workspace?.members ?? []).map((folder) =>
      JSON.stringify([`${folder}/package.json`, `./${folder}/`]),
    ),
    pruneFolders: (project.workspace?.used ?? []).map(({ folder }) => `, ${JSON.stringify(folder)}`).join(""),
    toRoot: project.folder.replaceAll(/[^/]+/g, ".."),
    installRootFiles: [...(project.lockFile ? [project.lockFile] : []), ...rootFiles].join(" "),
    installFolders: folders,
    removeAfterInstall: removable.map((path) => ` ${path}`).join(""),
    // BuildKit shows these files to this one command; nothing of them stays in a layer.
    secretMount: project.secretFiles
      .map((file) => `--mount=type=secret,id=${secretId(file)},target=/app/${file} `)
      .join(""),
    credentialNames: CREDENTIAL_NAMES,
    ...manager,
    variables: [
      ...Object.entries(env).map(
        ([key, value]) => `${key}: ${JSON.stringify(value).replaceAll("$", "$$$$")}`,
      ),
      ...secretNames.map((key) => `${key}:`),
    ],
    doRegion: "nyc",
    doVariables: [
      ...Object.entries(env).map(
        ([key, value]) => `{key: ${key}, value: ${JSON.stringify(value)}, scope: RUN_TIME}`,
      ),
      ...secretNames.map((key) => `{key: ${key}, scope: RUN_TIME, type: SECRET}`),
    ],
  };
}

interface ManagerCommands {
  readonly installTool: string;
  readonly installProduction: string;
  readonly installAll: string;
  readonly runBuild: string;
}

/** How the package manager of a project installs and builds. */
export function managerCommands(project: Project): ManagerCommands {
  const { packageManager, workspace } = project;
  const commands = commandsOf(project);
  if (!workspace) return commands;
  const builds = workspace.used.filter(({ hasBuild }) => hasBuild);
  return {
    ...commands,
    runBuild: builds.map(({ folder }) => `(cd "${folder}" && ${packageManager} run build)`).join(" && "),
  };
}

function commandsOf(project: Project): ManagerCommands {
  const locked = project.lockFile !== undefined;
  const version = project.packageManagerVersion;
  const { folder } = project;
  /** For a package of a workspace, only what it needs is installed. */
  const only = (words: string) => (folder === "" ? "" : ` ${words}`);
  const commands: Readonly<Record<PackageManager, () => ManagerCommands>> = {
    npm: () => ({
      installTool: version ?? "",
      installProduction: `npm ${locked ? "ci" : "install"} --omit=dev --no-audit --no-fund${only(`--workspace="${folder}" --include-workspace-root`)}`,
      installAll: `npm ${locked ? "ci" : "install"} --no-audit --no-fund`,
      runBuild: "npm run build",
    }),
    pnpm: () => ({
      installTool: version ?? "pnpm@10",
      installProduction: `pnpm install --prod ${locked ? "--frozen-lockfile" : "--no-frozen-lockfile"}${only(`--filter="{${folder}}..." --filter="{.}"`)}`,
      installAll: `pnpm install ${locked ? "--frozen-lockfile" : "--no-frozen-lockfile"}`,
      runBuild: "pnpm run build",
    }),
    yarn: () => {
      if (project.yarnBerry)
        return {
          installTool: version?.replace("yarn@", "@yarnpkg/cli-dist@") ?? "@yarnpkg/cli-dist@4",
          installProduction: `${folder === "" ? "" : `cd "${folder}" && `}YARN_NODE_LINKER=node-modules yarn workspaces focus --production`,
          installAll: `YARN_NODE_LINKER=node-modules yarn install${locked ? " --immutable" : ""}`,
          runBuild: "yarn run build",
        };
      const frozen = locked ? " --frozen-lockfile" : "";
      return {
        installTool: version ?? "yarn@1",
        installProduction: `yarn install --production${frozen}`,
        installAll: `yarn install${frozen}`,
        runBuild: "yarn run build",
      };
    },
    bun: () => ({
      installTool: version ?? "bun@1",
      installProduction: `bun install --production${locked ? " --frozen-lockfile" : ""}${only(`--filter="./${folder}"`)}`,
      installAll: `bun install${locked ? " --frozen-lockfile" : ""}`,
      runBuild: "bun run build",
    }),
  };
  return commands[project.packageManager]();
}
