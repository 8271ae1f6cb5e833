import { isCloudError } from "../cloud/cloud-error.ts";
import { removeDomains } from "../cloud/domain.ts";
import { notOwn } from "../cloud/findings.ts";
import { isOwn } from "../cloud/ownership.ts";
import { pollGone } from "../cloud/poll.ts";
import type { Context } from "./context.ts";
import { domainsOf } from "./domains.ts";
import { isNotFound } from "./google-error.ts";
import { waitForOperation } from "./operations.ts";
import { changeService, finishChange } from "./service.ts";
import type { Operation, Service } from "./service-types.ts";

/** Stops all instances and keeps the service. */
export async function scaleToZero(context: Context): Promise<void> {
  if ((await ownService(context)) === undefined) return;
  await changeService(
    context,
    "service.scale",
    ({ scaling }) =>
      scaling?.scalingMode === "MANUAL" && !scaling.manualInstanceCount
        ? undefined
        : { fields: { scaling: { ...scaling, scalingMode: "MANUAL", manualInstanceCount: 0 } } },
    finishChange,
  );
}

/** Deletes the service, its domain mappings first, and waits until its name is free. */
export async function removeService(context: Context): Promise<void> {
  const google = await context.google();
  if (context.target.flags.domain !== undefined && (await ownService(context)) !== undefined)
    await removeDomains(context.tools, domainsOf(context));
  for (;;) {
    const service = await ownService(context);
    if (service === undefined) return;
    try {
      await context.tools.journal({ step: "service.delete" }, async (note) => {
        const operation = await google.send<Operation>("run", "DELETE", `/v2/${context.service}`, {
          query: { etag: service.etag },
          reread: async () =>
            (await ownService(context)) === undefined ? { name: "", done: true } : undefined,
        });
        await note({ operation: operation.name });
        await waitForOperation(context, "run", operation);
      });
      await pollGone({ tools: context.tools, every: 2000, read: () => ownService(context) });
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isCloudError(error) || error.code !== "ABORTED") throw error;
      await context.tools.sleep(1000);
    }
  }
}

async function ownService(context: Context): Promise<Service | undefined> {
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (service === undefined || isOwn(service.labels, context.target)) return service;
  throw notOwn(context.target, {
    detail: "It does not have the labels that svc sets",
    fix: `Remove it yourself: gcloud run services delete ${context.target.serviceName} --region ${context.target.region}`,
  });
}
