import { removeRole } from "../aws/roles.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { pollGone } from "../cloud/poll.ts";
import { type Context, madeRoles } from "./context.ts";
import { dropScaling } from "./scaling.ts";
import { findOwnService, settledService, waitForOperation } from "./services.ts";

interface Started {
  readonly OperationId?: string;
}

/** Stops all instances; only a running service can be paused. */
export async function pauseService(context: Context): Promise<void> {
  const service = await settledService(context);
  if (service?.Status !== "RUNNING") return;
  await context.tools.journal({ step: "service.pause" }, async (note) => {
    const started = await context.aws.send<Started>(
      "apprunner",
      "PauseService",
      { ServiceArn: service.ServiceArn },
      { reread: async () => ((await findOwnService(context))?.Status === "RUNNING" ? undefined : {}) },
    );
    await note({ operation: started.OperationId ?? null });
    await waitForOperation(context, service.ServiceArn ?? "", started.OperationId);
  });
}

/** Deletes the service, then what was created for it. */
export async function removeService(context: Context): Promise<void> {
  await deleteService(context);
  await dropScaling(context);
  for (const { name } of madeRoles(context)) await removeRole(context, name);
}

/** Deletes the service and waits until its name is free. */
export async function deleteService(context: Context): Promise<void> {
  const service = await settledService(context);
  if (service === undefined) return;
  await context.tools.journal({ step: "service.delete" }, async () => {
    try {
      await context.aws.send(
        "apprunner",
        "DeleteService",
        { ServiceArn: service.ServiceArn },
        { reread: async () => ((await findOwnService(context)) === undefined ? {} : undefined) },
      );
    } catch (error) {
      if (!(error instanceof CloudError) || error.code !== "ResourceNotFoundException") throw error;
    }
  });
  await pollGone({ tools: context.tools, every: 4000, read: () => findOwnService(context) });
}
