import { createHash } from "node:crypto";
import type { Release, ReleaseSpec } from "agent-control-service";
import { DeployError, definePlatform, specChanges } from "agent-control-service";
import * as v from "valibot";

/** Turns the files of the mounted secrets into variables, then becomes what the image would run. */
const ENTRY =
  'for f in /run/secrets/*/value; do [ -e "$f" ] && export "$(basename "$(dirname "$f")")=$(cat "$f")"; done; exec "$@"';

/** One machine with Docker, reached over ssh: `svc deploy up --platform ssh-docker --host ssh://me@server.example`. */
export default definePlatform({
  name: "ssh-docker",
  defaultRegion: "server",
  flags: v.object({
    host: v.pipe(v.string(), v.description("Docker engine, such as ssh://me@server.example")),
    address: v.optional(v.pipe(v.string(), v.description("where people reach that machine")), "127.0.0.1"),
  }),
  connect({ serviceName: name, port, flags }, tools) {
    const url = `http://${flags.address}:${port}`;

    async function docker(args: readonly string[], input: string | Uint8Array = ""): Promise<string> {
      const result = await tools.exec("docker", ["--host", flags.host, ...args], { input });
      if (result.code === 0) return result.stdout.trim();
      throw new DeployError("failed", `docker ${args[0]} failed on ${flags.host}`, {
        detail: result.stderr.trim(),
      });
    }

    async function inspect(): Promise<Release | undefined> {
      const filter = ["--filter", `name=^${name}$`, "--filter", "label=svc.spec"];
      const found = await docker([
        "ps",
        "--all",
        ...filter,
        "--format",
        '{{.ID}} {{.State}} {{.Label "svc.spec"}}',
      ]);
      const [, id = "", status = "", json] = /^(\S+) (\S+) (.*)$/.exec(found) ?? [];
      if (json === undefined) return undefined;
      const spec = JSON.parse(json) as Pick<ReleaseSpec, "image" | "env" | "secrets">;
      const revision = createHash("sha256").update(json).digest("hex").slice(0, 12);
      return {
        id: name,
        revision,
        image: spec.image,
        url,
        status,
        env: spec.env,
        secretNames: Object.keys(spec.secrets),
        data: { json, id },
      };
    }

    /** The container is its own record: what it was made from stands in its label. */
    async function run(json: string): Promise<Release> {
      const { image, env, secrets } = JSON.parse(json) as Pick<ReleaseSpec, "image" | "env" | "secrets">;
      const id = image.slice(image.indexOf("@") + 1);
      const cmd = JSON.parse(
        await docker(["image", "inspect", "--format", "{{json .Config.Cmd}}", id]),
      ) as string[];
      const mounts = Object.entries(secrets).flatMap(([key, ref]) => [
        "--volume",
        `${ref?.ref}:/run/secrets/${key}:ro`,
      ]);
      const options = [
        "--name",
        name,
        "--label",
        `svc.spec=${json}`,
        "--restart",
        "unless-stopped",
        "--publish",
        `${port}:${port}`,
      ];
      const variables = Object.entries(env).flatMap(([key, value]) => ["--env", `${key}=${value}`]);
      await tools.journal({ step: "container.replace" }, async () => {
        if (await inspect()) await docker(["rm", "--force", name]);
        await docker([
          "run",
          "--detach",
          "--init",
          ...options,
          "--volume",
          `${name}-data:/data`,
          ...mounts,
          ...variables,
          "--entrypoint",
          "sh",
          id,
          "-c",
          ENTRY,
          "sh",
          ...cmd,
        ]);
      });
      return (await inspect())!;
    }

    return {
      inspect,
      imageRef: (tag) => `${name}:${tag}`,
      registryLogin: async () => undefined,
      predictUrl: async () => url,
      async preflight() {
        const version = await docker(["version", "--format", "{{.Server.Version}}"]);
        return [{ level: "ok", subject: "Docker", message: `${flags.host}, engine ${version}` }];
      },
      async plan(spec, live) {
        const changes = specChanges(spec, live);
        const action_type = live === undefined ? "create" : changes.length > 0 ? "update" : "noop";
        return [
          {
            resource_type: "service",
            action_type,
            resource_name: name,
            description: `container on ${flags.host}`,
            cost_estimate: null,
            metadata: { changes },
          },
        ];
      },
      async build(context, ref) {
        return tools.journal({ step: "image.build" }, async () => {
          await docker(["build", "--tag", ref, "-"], await context.pack());
          return docker(["image", "inspect", "--format", "{{.Id}}", ref]);
        });
      },
      async listSecrets() {
        const format = '{{.Label "svc.secret"}}\t{{.Name}}\t{{.Label "svc.hash"}}\t{{.Label "svc.at"}}';
        const lines = await docker([
          "volume",
          "ls",
          "--filter",
          `label=svc.service=${name}`,
          "--format",
          format,
        ]);
        const all = lines
          .split("\n")
          .filter(Boolean)
          .map((line) => line.split("\t"))
          .sort((a, b) => Number(a[3]) - Number(b[3]));
        // Every value has its own volume, so that a rollback finds the one it ran with; the newest counts.
        return [
          ...new Map(all.map(([key = "", ref = "", hash = ""]) => [key, { name: key, ref, hash }])).values(),
        ];
      },
      async putSecrets(values) {
        const refs: Record<string, { name: string; ref: string }> = {};
        for (const [key, { value, hash }] of Object.entries(values)) {
          const ref = `${name}.${key}.${tools.newId().slice(0, 8)}`;
          const labels = [
            `svc.service=${name}`,
            `svc.secret=${key}`,
            `svc.hash=${hash}`,
            `svc.at=${tools.now().getTime()}`,
          ];
          await tools.journal({ step: `secret.put ${key}`, data: { ref } }, async () => {
            await docker(["volume", "create", ...labels.flatMap((label) => ["--label", label]), ref]);
            await docker(
              [
                "run",
                "--rm",
                "--interactive",
                "--volume",
                `${ref}:/s`,
                "node:22-slim",
                "sh",
                "-c",
                "cat > /s/value",
              ],
              value,
            );
          });
          refs[key] = { name: key, ref };
        }
        return refs;
      },
      async release({ image, env, secrets }) {
        const json = JSON.stringify({ image, env, secrets });
        const live = await inspect();
        return live?.data?.json === json && live.status === "running" ? live : run(json);
      },
      rollback: (to) => run(String(to.data?.json)),
      async scaleToZero() {
        if (await inspect()) await tools.journal({ step: "container.stop" }, () => docker(["stop", name]));
      },
      async remove() {
        if (!(await inspect())) return;
        await tools.journal({ step: "container.remove" }, async () => {
          await docker(["rm", "--force", name]);
          await docker(["volume", "rm", "--force", `${name}-data`]);
        });
      },
      async dropSecrets(names) {
        for (const key of names) {
          const labels = ["--filter", `label=svc.service=${name}`, "--filter", `label=svc.secret=${key}`];
          const volumes = (await docker(["volume", "ls", "--quiet", ...labels])).split("\n").filter(Boolean);
          if (volumes.length > 0)
            await tools.journal({ step: `secret.delete ${key}` }, () => docker(["volume", "rm", ...volumes]));
        }
      },
      async *logs({ since }) {
        yield* (await docker(["logs", "--since", since.toISOString(), name])).split("\n");
      },
    };
  },
});
