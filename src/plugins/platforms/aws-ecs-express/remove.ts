import { removeRole } from "../aws/roles.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { pollGone } from "../cloud/poll.ts";
import { type Context, madeRoles, serviceArn } from "./context.ts";
import { findOwnService } from "./services.ts";

/** Deletes the service and waits until it is drained, then the roles that were created for it. */
export async function removeService(context: Context): Promise<void> {
  const service = await findOwnService(context);
  if (service !== undefined && service.status?.statusCode !== "DRAINING")
    await context.tools.journal({ step: "service.delete" }, async () => {
      try {
        await context.aws.send(
          "ecs",
          "DeleteExpressGatewayService",
          { serviceArn: serviceArn(context) },
          { idempotent: true },
        );
      } catch (error) {
        if (!(error instanceof CloudError) || !/NotFound|ServiceNotActive/.test(error.code)) throw error;
      }
    });
  await pollGone({ tools: context.tools, every: 5000, read: () => findOwnService(context) });
  for (const { name } of madeRoles(context)) await removeRole(context, name);
}
