import * as v from "valibot";
import { defineCommand } from "./command.ts";
import { UsageError } from "./errors.ts";
import { findController, loadController } from "./load-controller.ts";

/** Where `start` and `dev` listen. */
export const ListenFlagsSchema = v.object({
  port: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(0, "must be 0 to 65535"),
      v.maxValue(65535, "must be 0 to 65535"),
      v.description("port to listen on, 0 for a free one; overrides the service's own"),
    ),
  ),
  host: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[A-Za-z0-9.:_[\]-]+$/, "must be a host name or an address"),
      v.description("address to listen on"),
      v.metadata({ value: "address" }),
    ),
  ),
});

/** `svc start`: runs the service of a controller file. */
export const start = defineCommand({
  usage: "start [file]",
  summary: "Run the service that a controller file exports (src/controller.ts)",
  flags: v.object({
    ...ListenFlagsSchema.entries,
    paused: v.optional(
      v.pipe(v.boolean(), v.description("take jobs in and run none until svc resume")),
      false,
    ),
    instances: v.optional(
      v.pipe(
        v.number(),
        v.integer("must be a whole number"),
        v.minValue(1, "must be 1 to 64"),
        v.maxValue(64, "must be 1 to 64"),
        v.description("processes that serve one port together; needs a database, see docs/store.md"),
      ),
    ),
    control: v.optional(
      v.pipe(v.boolean(), v.description("start a development control system beside it")),
      false,
    ),
  }),
  examples: [
    "svc start",
    "svc start examples/hello/controller.ts --port 8100",
    "svc start --control",
    "svc start --instances 3",
  ],
  async run({ args, flags, context }) {
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
    const service = await loadController(file, context, variables);
    if (several) return several.runInstance(service, flags, context);
    return (await import("./run-service.ts")).runService(service, flags, context);
  },
});
