import { requestCommand } from "../job/request-command.ts";

/** `svc agent pause`: an agent starts no new jobs. */
export const pause = steering({
  usage: "pause <agent>",
  summary: "Let an agent start no new jobs: they wait in line, those that have started continue",
  done: "is paused: its new jobs wait",
});

/** `svc agent resume`: a paused agent starts jobs again. */
export const resume = steering({
  usage: "resume <agent>",
  summary: "Let a paused agent start its waiting jobs, in their order",
  done: "is resumed",
});

interface Steering {
  readonly usage: string;
  readonly summary: string;
  readonly done: string;
}

function steering({ done, ...about }: Steering) {
  const [verb] = about.usage.split(" ");
  return requestCommand({
    ...about,
    examples: [`svc agent ${verb} invoice-audit`],
    ask: (client, { args }) => client.post(`/admin/api/agents/${encodeURIComponent(args[0]!)}/${verb}`, {}),
    show: (_, { args }) => `Agent ${args[0]} ${done}`,
  });
}
