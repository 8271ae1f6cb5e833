import * as v from "valibot";

const instances = (least: number) =>
  v.pipe(
    v.number(),
    v.integer("must be a whole number"),
    v.minValue(least, `must be at least ${least}`),
    v.maxValue(1000, "must be at most 1000"),
  );

/** Options of `--platform cloud-run`. */
export const CloudRunFlagsSchema = v.object({
  useCloudBuild: v.optional(
    v.pipe(v.boolean(), v.description("Build with Cloud Build instead of on this machine")),
  ),
  minInstances: v.optional(v.pipe(instances(0), v.description("Instances that always run (0 to 1000)"))),
  maxInstances: v.optional(v.pipe(instances(1), v.description("Most instances that may run (1 to 1000)"))),
  cpu: v.optional(v.pipe(v.string(), v.description("CPU of an instance, such as 1 or 2 (new service: 1)"))),
  memory: v.optional(
    v.pipe(v.string(), v.description("Memory of an instance, such as 512Mi (new service: 512Mi)")),
  ),
  alwaysOnCpu: v.optional(
    v.pipe(v.boolean(), v.description("CPU also between requests: for jobs that go on after the answer")),
  ),
  serviceAccount: v.optional(v.pipe(v.string(), v.description("E-mail of the account the service runs as"))),
  private: v.optional(v.pipe(v.boolean(), v.description("Only callers with the role run.invoker get in"))),
});
export type CloudRunFlags = v.InferOutput<typeof CloudRunFlagsSchema>;
