import * as v from "valibot";
import { noteTime } from "../core/base/note-time.ts";
import { option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { UsageError } from "./errors.ts";
import { findController, loadController } from "./load-controller.ts";

/** Where `start` and `dev` listen. */
export const ListenFlagsSchema = v.object({
  port: option.whole("port to listen on, 0 for a free one; overrides the service's own", 0, 65535),
  host: option.ruled(
    v.regex(/^[A-Za-z0-9.:_[\]-]+$/, "must be a host name or an address"),
    "address to listen on",
    "address",
  ),
});

/** `svc start`: runs the service of a controller file. */
export const start = defineCommand({
  usage: "start [file]",
  summary: "Run the service that a controller file exports (src/controller.ts)",
  flags: v.object({
    ...ListenFlagsSchema.entries,
    paused: option.flag("take jobs in and run none until svc resume"),
    instances: option.whole(
      "processes that serve one port together; needs a database, see docs/store.md",
      1,
      64,
    ),
    control: option.flag("start a development control system beside it"),
    timing: option.flag("print where the time of the start went"),
  }),
  examples: [
    "svc start",
    "svc start examples/hello/controller.ts --port 8100",
    "svc start --control",
    "svc start --instances 3",
  ],
  async run({ args, flags, context }) {
    noteTime("command", 0);
    const file = findController(args[0], context.cwd);
    const { instances } = flags;
    if (instances !== undefined && flags.paused) {
      throw new UsageError(
        "--paused is for one instance",
        "svc resume reaches one: start without --instances.",
      );
    }
    const several = instances === undefined ? undefined : await import("./instances.ts");
    const isChild = several?.isInstance() === true;
    const account =
      flags.control && !isChild ? await (await import("./with-control.ts")).startWithControl(context) : {};
    if (several && !isChild) {
      return several.superviseInstances(instances!, { ...context, env: { ...context.env, ...account } });
    }
    const variables = { ...account, ...(flags.paused && { SERVICE_PAUSED: "true" }) };
    const began = performance.now();
    const service = await loadController(file, context, variables);
    noteTime("controller and its modules", began);
    if (several) return several.runInstance(service, flags, context);
    return (await import("./run-service.ts")).runService(service, flags, context);
  },
});
