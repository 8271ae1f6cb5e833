import type { RouteDefinition } from "../route.ts";
import { accessRoutes } from "./access.ts";
import { agentJobRoutes } from "./agent-jobs.ts";
import { agentRoutes } from "./agents.ts";
import { attentionRoute } from "./attention.ts";
import { backupRoute } from "./backup.ts";
import { caseRoutes } from "./cases.ts";
import { completionRoutes } from "./chat-completions.ts";
import { fileRoutes } from "./files.ts";
import { forkRoutes } from "./forks.ts";
import { healthRoutes } from "./health.ts";
import { jobFileRoutes } from "./job-files.ts";
import { jobStreamRoute } from "./job-stream.ts";
import { jobRoutes } from "./jobs.ts";
import { listFilesRoute } from "./list-files.ts";
import { messageRoute } from "./messages.ts";
import { openJobsRoute } from "./open-jobs.ts";
import { openAiFileRoutes } from "./openai-files.ts";
import { parameterRoutes } from "./parameters.ts";
import type { MachineParts } from "./parts.ts";
import { receivedEventRoutes } from "./received-events.ts";
import { receiverRoutes } from "./receivers.ts";
import { responseRoutes } from "./responses.ts";
import { scheduleRoutes } from "./schedules.ts";
import { signingKeyRoutes } from "./signing-keys.ts";
import { tokenRoutes } from "./tokens.ts";
import { uiChatRoutes } from "./ui-chat.ts";
import { utilRoutes } from "./utils.ts";

/** Every route that programs use. */
export function machineRoutes(parts: MachineParts): RouteDefinition[] {
  return [
    ...healthRoutes(parts),
    attentionRoute(parts),
    ...agentRoutes(parts),
    ...agentJobRoutes(parts),
    ...parameterRoutes(parts),
    ...jobRoutes(parts),
    ...forkRoutes(parts),
    jobStreamRoute(parts),
    ...tokenRoutes(parts),
    messageRoute(parts),
    ...completionRoutes(parts),
    ...responseRoutes(parts),
    ...openAiFileRoutes(parts),
    ...uiChatRoutes(parts),
    ...caseRoutes(parts),
    ...fileRoutes(parts),
    listFilesRoute(parts),
    ...jobFileRoutes(parts),
    ...scheduleRoutes(parts),
    ...receivedEventRoutes(parts),
    ...receiverRoutes(parts),
    ...utilRoutes(parts),
    backupRoute(parts),
    openJobsRoute(parts),
    ...signingKeyRoutes(parts),
    ...accessRoutes(parts),
  ];
}
