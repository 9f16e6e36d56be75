"""What a run says of itself: luck is named, and a count that luck explains is not called recovery."""

from __future__ import annotations

from recollect.stages.verdict import generated_verdict, verdict, verdict_beside_others

JUDGED = {
    "reference_count": 500,
    "recovered": 65,
    "recovered_rule": "SSIM above 0.28",
    "score": "ssim",
    "threshold": 0.278,
    "false_positive_rate": 0.01,
    "luck_probability": 1e-40,
    "null_count": 2000,
    "ncc80": 7,
    "null_ncc80": 5,
}


def test_recovery_is_stated_with_the_luck_beside_it() -> None:
    assert verdict(JUDGED) == (
        "65 of 500 training samples were recovered: they match a candidate better than 99% of 2000 held-out samples "
        "do (SSIM above 0.28). At NCC >= 0.8: 7 of 500 training samples, and by luck 5 of 2000 held-out ones."
    )


def test_a_count_that_luck_explains_is_not_called_recovery() -> None:
    words = verdict(JUDGED | {"recovered": 5, "luck_probability": 0.56})
    assert words.startswith("Nothing beyond chance: 5 of 500 training samples pass a threshold that luck lets 5.0 of")
    assert "does not mean that nothing can be found" in words
    assert "recovered" not in words


def test_without_held_out_samples_nothing_is_claimed() -> None:
    words = verdict(JUDGED | {"recovered": None, "luck_probability": None})
    assert "nobody can say how much of that is luck" in words


def test_without_reference_data_nothing_is_verified() -> None:
    assert "nothing about them has been verified" in verdict({"distilled": 12})


def test_an_attack_that_diverged_is_not_called_chance() -> None:
    assert verdict(JUDGED | {"trials": 2, "diverged_trials": 2}).startswith("Every trial diverged, so nothing was")
    assert verdict(JUDGED | {"trials": 2, "diverged_trials": 1}) == verdict(JUDGED)


def test_points_and_vectors_leave_out_what_does_not_apply() -> None:
    rule = "some candidate within 0.05 of the sample (Euclidean distance); not calibrated on held-out data"
    points = {"reference_count": 20, "recovered": 20, "score": "distance", "recovered_rule": rule, "distilled": 31}
    assert verdict(points) == f"20 of 20 training samples were recovered: {rule}."
    assert verdict(points | {"distilled": 0}).startswith("None of 20 training samples was recovered: no multiplier")
    assert "NCC >= 0.8" not in verdict(JUDGED | {"ncc80": None})
    unknown = verdict(JUDGED | {"ncc80": None, "recovered": None})
    assert unknown.startswith("500 training samples were matched; without held-out samples nobody can say")


GENERATED = {"generators": 3, "label_agreement": 0.995, "attack_accuracy": 0.86, "attack_accuracy_deviation": 0.021}


def test_generated_images_are_training_like_and_no_more_unless_membership_says_so() -> None:
    by_luck = generated_verdict(GENERATED | {"member_advantage": 0.0012, "member_luck": 0.38})
    assert by_luck.startswith("The attacked network gives 99.5% of the images the label asked for")
    assert "an independent one 86.0% (mean of 3 trials, deviation 2.1%)" in by_luck
    assert by_luck.endswith("at best they are training-like.")
    beyond = generated_verdict(GENERATED | {"member_advantage": 0.03, "member_luck": 0.005})
    assert "nearer to training images than to held-out ones" in beyond
    assert "training-like" not in beyond


def test_what_was_recovered_is_said_before_what_images_look_like() -> None:
    images = JUDGED | GENERATED | {"member_advantage": 0.0012, "member_luck": 0.38}
    said = verdict_beside_others(images, "kkt")
    assert said == f"{verdict(JUDGED)} Judged as generated images: {generated_verdict(images)}"
    assert verdict_beside_others(images, "generator") == said  # beyond luck, by whatever attack
    assert verdict_beside_others(images | {"luck_probability": 0.4}, "generator") == generated_verdict(images)
    assert verdict_beside_others(GENERATED | {"distilled": 3}, "kkt") == generated_verdict(GENERATED)


def test_generated_images_without_judges_or_held_out_images() -> None:
    assert "nobody can say" in generated_verdict({"generators": 1, "label_agreement": 1.0})
    assert "Without held-out images" in generated_verdict(GENERATED)
    varied = generated_verdict(GENERATED | {"density": 0.75, "coverage": 0.02})
    assert "; among real images they are 0.75 times as dense as those, and cover 2.0% of them. Without" in varied
    assert "diverged" in generated_verdict({"generators": 0})
