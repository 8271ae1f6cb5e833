import type { LiveStreams } from "../../core/http/live-streams.ts";
import type { RouteDefinition } from "../../core/http/route.ts";
import { accessPageRoutes } from "./access/routes.ts";
import { actionApiRoutes } from "./actions/api.ts";
import { actionFormRoutes } from "./actions/forms.ts";
import { agentRoutes } from "./agents/agents-page.ts";
import { parameterFormRoutes } from "./agents/parameters.ts";
import { pauseRoutes } from "./agents/pause-routes.ts";
import { startRoutes } from "./agents/start-page.ts";
import { answerPageRoutes } from "./answer-links/answer-page.ts";
import { answerLinkRoutes } from "./answer-links/link-routes.ts";
import { assetRoutes } from "./asset-routes.ts";
import { auditRoutes } from "./audit/routes.ts";
import { bulkRoutes } from "./bulk/routes.ts";
import { caseRoutes } from "./case/page.ts";
import { chatRoutes } from "./chat/page.ts";
import { compareRoutes } from "./compare/page.ts";
import { consoleRoutes } from "./console/routes.ts";
import { deletedRoutes } from "./deleted/routes.ts";
import { deliveryRoutes } from "./deliveries/routes.ts";
import { eventRoutes } from "./events/routes.ts";
import { failureRoutes } from "./failures/page.ts";
import { fileRoutes } from "./files/file-routes.ts";
import { galleryRoutes } from "./files/gallery.ts";
import { findRoutes } from "./find/page.ts";
import { helpRoutes } from "./help.ts";
import { inboxRoutes } from "./inbox/routes.ts";
import { jobRoutes } from "./job/page.ts";
import { casesListRoutes } from "./lists/cases-list.ts";
import { exportRoutes } from "./lists/export.ts";
import { jobsListRoutes } from "./lists/jobs-list.ts";
import { liveRoute } from "./live/route.ts";
import { modelRoutes } from "./models/page.ts";
import { dashboardRoutes } from "./pages/dashboard.ts";
import type { AdminParts } from "./parts.ts";
import { pluginPageRoutes } from "./plugin-pages.ts";
import { retentionRoutes } from "./retention/routes.ts";
import { savedViewRoutes } from "./saved-views/routes.ts";
import { scheduleRoutes } from "./schedules/routes.ts";
import { serverRoutes } from "./server/page.ts";
import { sessionListRoutes } from "./session/list.ts";
import { sessionRoutes } from "./session/routes.ts";

/** Every route of the admin interface. */
export function adminRoutes(parts: AdminParts, streams: LiveStreams): RouteDefinition[] {
  return [
    ...dashboardRoutes(parts),
    ...jobsListRoutes(parts),
    ...savedViewRoutes(parts),
    ...exportRoutes(parts),
    ...failureRoutes(parts),
    ...casesListRoutes(parts),
    ...jobRoutes(parts),
    ...galleryRoutes(parts),
    ...fileRoutes(parts),
    ...compareRoutes(parts),
    ...caseRoutes(parts),
    ...inboxRoutes(parts),
    ...answerLinkRoutes(parts),
    ...answerPageRoutes(parts),
    ...agentRoutes(parts),
    ...startRoutes(parts),
    ...pauseRoutes(parts),
    ...parameterFormRoutes(parts),
    ...chatRoutes(parts),
    ...consoleRoutes(parts, streams),
    ...modelRoutes(parts),
    ...scheduleRoutes(parts),
    ...eventRoutes(parts),
    ...deletedRoutes(parts),
    ...deliveryRoutes(parts),
    ...auditRoutes(parts),
    ...retentionRoutes(parts),
    ...serverRoutes(parts),
    ...actionApiRoutes(parts),
    ...actionFormRoutes(parts),
    ...bulkRoutes(parts),
    liveRoute(parts, streams),
    ...pluginPageRoutes(parts),
    ...sessionRoutes(parts),
    ...sessionListRoutes(parts),
    ...accessPageRoutes(parts),
    ...findRoutes(parts),
    ...helpRoutes(parts),
    ...assetRoutes(parts.assets),
  ];
}
