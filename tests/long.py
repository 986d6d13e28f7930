"""The tests that `make test` omits, because they take long and shorter ones make much the same claim; `make test-long`
runs them, and .ci/run runs both.

`conftest.py` marks them `long` by this table: the test, and a regular expression for its cases ("" for all).
"""

import re

import pytest

LONG = {
    # Compiling for a GPU; `make test-ptx` compiles every division of the table of tiles.
    "cuda/test_compile.py::test_kernel_fits": r"persistent.*(H 800|gru \w+ bfloat16|lstm forward bfloat16|"
    r"H 512 B 128: 16x8|16x4|32x3)|float64 of|float64$",
    # The emulator of a GPU: hundreds of thousands of threads in Python.
    "cuda/test_cells.py::test_loops_that_come_again_are_recorded": "lstm_bahdanau",
    "cuda/test_language.py::test_texts_go_on_as_on_the_processor": "options0",
    "cuda/test_persistent.py::test_weights_in_shared_memory": "True",
    "cuda/test_search.py::test_options_are_those_of_the_processor": "min|forbidden|no_|reward|coverage",
    "cuda/test_search.py::test_samples_are_those_of_the_processor": "[0134]",
    "cuda/test_search.py::test_ensembles_are_those_of_the_processor": "prob-options1",
    "cuda/test_search.py::test_a_step_is_recorded_and_done_again": "options1",
    "model/test_gradients.py::test_gradients_equal_a_finite_difference_on_a_gpu": "conv|conditional|dropout|lexical|"
    "gru_general|linear|relu|projected|two_layers|no_input|without",
    "benchmarks/test_card.py::test_a_dry_run_of_all_steps": "",
    # Levels of processors and formats that other cases compile as well.
    "exporting/c/test_library.py::test_translations_and_scores_are_those_of_python_to_the_last_bit": "lstm|attention",
    "exporting/web/test_web.py::test_translations_scores_and_attention_are_those_of_python": "lstm|attention",
    "precompile/test_packs.py::test_every_level_is_made_on_every_machine": "",
    "rnn/kernels/test_bfloat16.py::test_every_target_without_a_matrix_unit_gives_the_same_bits": "avx512",
    "rnn/kernels/test_int8.py::test_every_target_gives_the_same_bits": "avx512-|avx2_vnni|bytes",
    "rnn/test_portable.py::test_scans_on_a_smaller_vector_unit": "generic",
    # Convolutions take a search of many compiled shapes.
    "decode/test_brute_force.py::test_batches_and_threads_do_not_change_a_translation": "^conv-|^lstm_to_conv-5",
    "decode/test_brute_force.py::test_a_wide_beam_finds_what_brute_force_finds": "^conv-[1-9]",
    # Trainings from texts to translations, and pages that have some.
    "model/test_language.py::test_the_toy_of_cudnn_converges": "",
    "recipes/test_recipes.py::test_a_recipe_from_texts_to_files_and_once_only": "",
    "test_notebooks.py::test_a_notebook_runs_and_gives_what_it_shows": "first|comparing",
    "test_site.py::test_the_site_is_built_without_a_warning_and_asks_no_other_host": "",
    "test_tutorials.py::test_a_page_can_be_followed": "letters|idea|own",
    # Processes that wait for one another.
    "test_callers.py::test_many_callers_get_the_serial_answers": "96",
    "train/test_ranks.py::test_a_language_model_by_four_ranks_is_cut_and_goes_on": "",
    "train/test_ranks.py::test_a_signal_stops_all_ranks_after_the_same_update": "15",
    "train/test_ranks.py::test_four_ranks_start_from_another_model_and_go_on": "false",
    # Texts of megabytes.
    "serve/test_attacks.py::test_no_file_keeps_others_waiting_or_takes_the_memory": "A10",
    "serve/test_attacks.py::test_no_text_keeps_others_waiting": "A2 a row of digits for the page",
}


def is_long(item: pytest.Item) -> bool:
    """Return whether the table names this case of a test."""
    test, _, case = item.nodeid.removeprefix("tests/").partition("[")
    return test in LONG and re.search(LONG[test], case.removesuffix("]")) is not None
