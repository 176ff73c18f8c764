"""Defenses around an answer generator, all run on the same saved contexts.

After *Prevented is Not Protected* (arXiv 2610.40742, section 3 and Appendix D), which compares pipelines
on one retrieved context each, so that retrieval cannot differ.
:mod:`~stressrag.aligned.pipelines.registry` lists them.
"""

from stressrag.aligned.pipelines.base import Outcome, Pipeline, Stage, Steps, run_pipelines
from stressrag.aligned.pipelines.registry import get_pipeline, pipeline_names

__all__ = ["Outcome", "Pipeline", "Stage", "Steps", "get_pipeline", "pipeline_names", "run_pipelines"]
