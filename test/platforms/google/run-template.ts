import type { Answer } from "../http-server.ts";
import { invalid } from "./error.ts";
import type { GoogleState, Json } from "./state.ts";

const RESERVED = new Set(["PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION"]);

export interface ContainerJson extends Json {
  image: string;
  env?: {
    name: string;
    value?: string;
    valueSource?: { secretKeyRef?: { secret: string; version?: string } };
  }[];
  ports?: { name?: string; containerPort?: number }[];
  startupProbe?: Json & { periodSeconds?: number; timeoutSeconds?: number };
}

/** What the server refuses of a template, or nothing. */
export function templateProblem(template: Json | undefined): Answer | undefined {
  const containers = template?.containers as ContainerJson[] | undefined;
  if (!containers?.[0]?.image) return invalid("template.containers[0].image: required");
  for (const { env = [], startupProbe } of containers) {
    const reserved = env.find(({ name }) => RESERVED.has(name));
    if (reserved)
      return invalid(
        `The following reserved env names were provided: ${reserved.name}. These values are automatically set by the system.`,
      );
    if (new Set(env.map(({ name }) => name)).size !== env.length) return invalid("duplicate env var name");
    if (env.length > 1000) return invalid("at most 1000 env vars");
    const { periodSeconds = 10, timeoutSeconds = 1 } = startupProbe ?? {};
    if (periodSeconds > 240 || timeoutSeconds > periodSeconds) return invalid("startup_probe: bad timing");
  }
  return undefined;
}

/** The template as the server gives it back: with its defaults filled in. */
export function normalised(state: GoogleState, template: Json): Json {
  const containers = (template.containers as ContainerJson[]).map((container) => ({
    ...container,
    ports: (container.ports ?? [{ containerPort: 8080 }]).map((port) => ({ name: "http1", ...port })),
    resources: withoutDefaults({
      limits: { cpu: "1000m", memory: "512Mi" },
      ...(container.resources as Json | undefined),
    }),
    startupProbe: withProbeDefaults(container.startupProbe, container.ports?.[0]?.containerPort ?? 8080),
  }));
  return {
    maxInstanceRequestConcurrency: 80,
    timeout: "300s",
    serviceAccount: `${state.number}-compute@developer.gserviceaccount.com`,
    ...template,
    containers,
  };
}

/** Responses omit what is false or zero, like the JSON of protocol buffers. */
export function withoutDefaults(json: Json): Json {
  return Object.fromEntries(Object.entries(json).filter(([, value]) => value !== false && value !== 0));
}

function withProbeDefaults(probe: Json | undefined, port: number): Json {
  if (!probe) return { timeoutSeconds: 240, periodSeconds: 240, failureThreshold: 1, tcpSocket: { port } };
  const httpGet = probe.httpGet as Json | undefined;
  return {
    timeoutSeconds: 1,
    periodSeconds: 10,
    failureThreshold: 3,
    ...probe,
    ...(httpGet ? { httpGet: { port, ...httpGet } } : {}),
  };
}
