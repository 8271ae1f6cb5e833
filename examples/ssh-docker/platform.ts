import {
  createCommand,
  createReleases,
  createSecretStore,
  definePlatform,
} from "agent-control-service/deploy";
import * as v from "valibot";

/** One machine with Docker, reached over ssh: `svc deploy up --platform ssh-docker --host ssh://me@server.example`. */
export default definePlatform({
  name: "ssh-docker",
  defaultRegion: "server",
  flags: v.object({
    host: v.pipe(v.string(), v.description("Docker engine, such as ssh://me@server.example")),
    address: v.optional(v.pipe(v.string(), v.description("where people reach that machine")), "127.0.0.1"),
  }),
  connect({ serviceName: name, port, flags }, tools) {
    const docker = createCommand(tools, "docker", "--host", flags.host);
    const url = `http://${flags.address}:${port}`;
    const label = `svc.service=${name}`;

    const releases = createReleases(tools, {
      async read() {
        const format = '{{.State}} {{.Label "svc.record"}}';
        const found = await docker`ps --all --filter label=${label} --format ${format}`;
        const [status = "", record] = found.split(/ (.*)/s);
        return record === undefined ? undefined : { id: name, url, status, record };
      },
      async run({ image, env, secrets }, record) {
        const variables = Object.entries(env).map(([key, value]) => `--env=${key}=${value}`);
        const files = Object.values(secrets).map(({ ref }) => `--volume=${ref}:/run/secrets/${ref}:ro`);
        await docker`rm --force ${name}`;
        await docker`run --detach --init --restart unless-stopped --name ${name} --publish ${port}:${port}
          --label ${label} --label svc.record=${record} --volume ${name}-data:/data
          ${files} ${variables} --env SERVICE_SECRETS_DIR=/run/secrets ${image.replace(/^.*@/, "")}`;
      },
    });
    // Each value is a volume, which the container sees as a file: it is in no command line and in no label.
    const vault = createSecretStore(tools, name, {
      list: async () => (await docker`volume ls --quiet --filter label=${label}`).split("\n"),
      async put(ref, value, variable) {
        await docker`volume create --label ${label} ${ref}`;
        const write = `cat > /secret/${variable}`;
        await docker.input(value)`run --rm --interactive --volume ${ref}:/secret node:22-slim sh -c ${write}`;
      },
      drop: (ref) => docker`volume rm --force ${ref}`,
    });

    return {
      ...releases,
      ...vault,
      predictUrl: async () => url,
      async preflight() {
        const version = await docker`version --format {{.Server.Version}}`;
        return [{ level: "ok", subject: "Docker", message: `${flags.host}, engine ${version}` }];
      },
      async build(context, ref) {
        await docker.input(context.pack())`build --tag ${ref} -`;
        return docker`image inspect --format {{.Id}} ${ref}`;
      },
      async remove() {
        await tools.journal({ step: "service.remove" }, () => docker`rm --force ${name}`);
        await tools.journal({ step: "data.remove" }, () => docker`volume rm --force ${name}-data`);
      },
      async *logs({ since }) {
        const words = ["--host", flags.host, "logs", "--since", since.toISOString(), name];
        const { stdout, stderr } = await tools.exec("docker", words);
        yield* `${stdout}${stderr}`.split("\n");
      },
    };
  },
});
